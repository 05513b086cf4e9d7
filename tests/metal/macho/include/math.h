/* math.h - see stdio.h beside it. */
#ifndef MACHO_MATH_H
#define MACHO_MATH_H

#define INFINITY __builtin_inff()
#define NAN      __builtin_nanf("")
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)

float sqrtf(float x);
float fabsf(float x);
float expf(float x);
float exp2f(float x);
double sqrt(double x);
double fabs(double x);
double ceil(double x);
double floor(double x);

#endif
