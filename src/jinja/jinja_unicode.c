/* jinja_unicode.c - what Python's str knows of characters beyond their general category.
 *
 * Written by tools/make_python_case.py from Python itself; do not edit. utf8proc gives categories
 * and mappings from one character to one; here are the upper and title cases that are several
 * characters, and the sets that are no category: other lower and upper case letters, digits that
 * are no decimals, ideographs that are numbers, and the exceptions of identifiers. */
#include "jinja_unicode.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const struct jinja_range_of_chars other_lower[] = {
    {0xAA, 0xAA}, {0xBA, 0xBA}, {0x2B0, 0x2B8}, {0x2C0, 0x2C1}, {0x2E0, 0x2E4}, {0x345, 0x345},
    {0x37A, 0x37A}, {0x1D2C, 0x1D6A}, {0x1D78, 0x1D78}, {0x1D9B, 0x1DBF}, {0x2071, 0x2071},
    {0x207F, 0x207F}, {0x2090, 0x209C}, {0x2170, 0x217F}, {0x24D0, 0x24E9}, {0x2C7C, 0x2C7D},
    {0xA69C, 0xA69D}, {0xA770, 0xA770}, {0xA7F8, 0xA7F9}, {0xAB5C, 0xAB5F}, {0x10780, 0x10780},
    {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA},
};
static const struct jinja_range_of_chars other_upper[] = {
    {0x2160, 0x216F}, {0x24B6, 0x24CF}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169},
    {0x1F170, 0x1F189},
};
static const struct jinja_range_of_chars other_digit[] = {
    {0xB2, 0xB3}, {0xB9, 0xB9}, {0x1369, 0x1371}, {0x19DA, 0x19DA}, {0x2070, 0x2070},
    {0x2074, 0x2079}, {0x2080, 0x2089}, {0x2460, 0x2468}, {0x2474, 0x247C}, {0x2488, 0x2490},
    {0x24EA, 0x24EA}, {0x24F5, 0x24FD}, {0x24FF, 0x24FF}, {0x2776, 0x277E}, {0x2780, 0x2788},
    {0x278A, 0x2792}, {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A},
    {0x1F100, 0x1F10A},
};
static const struct jinja_range_of_chars other_numeric[] = {
    {0x3405, 0x3405}, {0x3483, 0x3483}, {0x382A, 0x382A}, {0x3B4D, 0x3B4D}, {0x4E00, 0x4E00},
    {0x4E03, 0x4E03}, {0x4E07, 0x4E07}, {0x4E09, 0x4E09}, {0x4E5D, 0x4E5D}, {0x4E8C, 0x4E8C},
    {0x4E94, 0x4E94}, {0x4E96, 0x4E96}, {0x4EBF, 0x4EC0}, {0x4EDF, 0x4EDF}, {0x4EE8, 0x4EE8},
    {0x4F0D, 0x4F0D}, {0x4F70, 0x4F70}, {0x5104, 0x5104}, {0x5146, 0x5146}, {0x5169, 0x5169},
    {0x516B, 0x516B}, {0x516D, 0x516D}, {0x5341, 0x5341}, {0x5343, 0x5345}, {0x534C, 0x534C},
    {0x53C1, 0x53C4}, {0x56DB, 0x56DB}, {0x58F1, 0x58F1}, {0x58F9, 0x58F9}, {0x5E7A, 0x5E7A},
    {0x5EFE, 0x5EFF}, {0x5F0C, 0x5F0E}, {0x5F10, 0x5F10}, {0x62FE, 0x62FE}, {0x634C, 0x634C},
    {0x67D2, 0x67D2}, {0x6F06, 0x6F06}, {0x7396, 0x7396}, {0x767E, 0x767E}, {0x8086, 0x8086},
    {0x842C, 0x842C}, {0x8CAE, 0x8CAE}, {0x8CB3, 0x8CB3}, {0x8D30, 0x8D30}, {0x9621, 0x9621},
    {0x9646, 0x9646}, {0x964C, 0x964C}, {0x9678, 0x9678}, {0x96F6, 0x96F6}, {0xF96B, 0xF96B},
    {0xF973, 0xF973}, {0xF978, 0xF978}, {0xF9B2, 0xF9B2}, {0xF9D1, 0xF9D1}, {0xF9D3, 0xF9D3},
    {0xF9FD, 0xF9FD}, {0x20001, 0x20001}, {0x20064, 0x20064}, {0x200E2, 0x200E2},
    {0x20121, 0x20121}, {0x2092A, 0x2092A}, {0x20983, 0x20983}, {0x2098C, 0x2098C},
    {0x2099C, 0x2099C}, {0x20AEA, 0x20AEA}, {0x20AFD, 0x20AFD}, {0x20B19, 0x20B19},
    {0x22390, 0x22390}, {0x22998, 0x22998}, {0x23B1B, 0x23B1B}, {0x2626D, 0x2626D},
    {0x2F890, 0x2F890},
};
static const struct jinja_range_of_chars identifier_start[] = {
    {0x37A, 0x37A}, {0xE33, 0xE33}, {0xEB3, 0xEB3}, {0x1885, 0x1886}, {0x2118, 0x2118},
    {0x212E, 0x212E}, {0x2E2F, 0x2E2F}, {0xFC5E, 0xFC63}, {0xFDFA, 0xFDFB}, {0xFE70, 0xFE70},
    {0xFE72, 0xFE72}, {0xFE74, 0xFE74}, {0xFE76, 0xFE76}, {0xFE78, 0xFE78}, {0xFE7A, 0xFE7A},
    {0xFE7C, 0xFE7C}, {0xFE7E, 0xFE7E}, {0xFF9E, 0xFF9F},
};
static const struct jinja_range_of_chars identifier_continue[] = {
    {0xB7, 0xB7}, {0x37A, 0x37A}, {0x387, 0x387}, {0x1369, 0x1371}, {0x19DA, 0x19DA},
    {0x2118, 0x2118}, {0x212E, 0x212E}, {0x2E2F, 0x2E2F}, {0xFC5E, 0xFC63}, {0xFDFA, 0xFDFB},
    {0xFE70, 0xFE70}, {0xFE72, 0xFE72}, {0xFE74, 0xFE74}, {0xFE76, 0xFE76}, {0xFE78, 0xFE78},
    {0xFE7A, 0xFE7A}, {0xFE7C, 0xFE7C}, {0xFE7E, 0xFE7E},
};
static const struct long_case {
    uint32_t cp;
    const char *upper, *title; /* NULL: one character, as utf8proc has it */
} long_cases[] = {
    {0xDF, "\x53\x53", "\x53\x73"},
    {0x149, "\xCA\xBC\x4E", "\xCA\xBC\x4E"},
    {0x1F0, "\x4A\xCC\x8C", "\x4A\xCC\x8C"},
    {0x390, "\xCE\x99\xCC\x88\xCC\x81", "\xCE\x99\xCC\x88\xCC\x81"},
    {0x3B0, "\xCE\xA5\xCC\x88\xCC\x81", "\xCE\xA5\xCC\x88\xCC\x81"},
    {0x587, "\xD4\xB5\xD5\x92", "\xD4\xB5\xD6\x82"},
    {0x1E96, "\x48\xCC\xB1", "\x48\xCC\xB1"},
    {0x1E97, "\x54\xCC\x88", "\x54\xCC\x88"},
    {0x1E98, "\x57\xCC\x8A", "\x57\xCC\x8A"},
    {0x1E99, "\x59\xCC\x8A", "\x59\xCC\x8A"},
    {0x1E9A, "\x41\xCA\xBE", "\x41\xCA\xBE"},
    {0x1F50, "\xCE\xA5\xCC\x93", "\xCE\xA5\xCC\x93"},
    {0x1F52, "\xCE\xA5\xCC\x93\xCC\x80", "\xCE\xA5\xCC\x93\xCC\x80"},
    {0x1F54, "\xCE\xA5\xCC\x93\xCC\x81", "\xCE\xA5\xCC\x93\xCC\x81"},
    {0x1F56, "\xCE\xA5\xCC\x93\xCD\x82", "\xCE\xA5\xCC\x93\xCD\x82"},
    {0x1F80, "\xE1\xBC\x88\xCE\x99", NULL},
    {0x1F81, "\xE1\xBC\x89\xCE\x99", NULL},
    {0x1F82, "\xE1\xBC\x8A\xCE\x99", NULL},
    {0x1F83, "\xE1\xBC\x8B\xCE\x99", NULL},
    {0x1F84, "\xE1\xBC\x8C\xCE\x99", NULL},
    {0x1F85, "\xE1\xBC\x8D\xCE\x99", NULL},
    {0x1F86, "\xE1\xBC\x8E\xCE\x99", NULL},
    {0x1F87, "\xE1\xBC\x8F\xCE\x99", NULL},
    {0x1F88, "\xE1\xBC\x88\xCE\x99", NULL},
    {0x1F89, "\xE1\xBC\x89\xCE\x99", NULL},
    {0x1F8A, "\xE1\xBC\x8A\xCE\x99", NULL},
    {0x1F8B, "\xE1\xBC\x8B\xCE\x99", NULL},
    {0x1F8C, "\xE1\xBC\x8C\xCE\x99", NULL},
    {0x1F8D, "\xE1\xBC\x8D\xCE\x99", NULL},
    {0x1F8E, "\xE1\xBC\x8E\xCE\x99", NULL},
    {0x1F8F, "\xE1\xBC\x8F\xCE\x99", NULL},
    {0x1F90, "\xE1\xBC\xA8\xCE\x99", NULL},
    {0x1F91, "\xE1\xBC\xA9\xCE\x99", NULL},
    {0x1F92, "\xE1\xBC\xAA\xCE\x99", NULL},
    {0x1F93, "\xE1\xBC\xAB\xCE\x99", NULL},
    {0x1F94, "\xE1\xBC\xAC\xCE\x99", NULL},
    {0x1F95, "\xE1\xBC\xAD\xCE\x99", NULL},
    {0x1F96, "\xE1\xBC\xAE\xCE\x99", NULL},
    {0x1F97, "\xE1\xBC\xAF\xCE\x99", NULL},
    {0x1F98, "\xE1\xBC\xA8\xCE\x99", NULL},
    {0x1F99, "\xE1\xBC\xA9\xCE\x99", NULL},
    {0x1F9A, "\xE1\xBC\xAA\xCE\x99", NULL},
    {0x1F9B, "\xE1\xBC\xAB\xCE\x99", NULL},
    {0x1F9C, "\xE1\xBC\xAC\xCE\x99", NULL},
    {0x1F9D, "\xE1\xBC\xAD\xCE\x99", NULL},
    {0x1F9E, "\xE1\xBC\xAE\xCE\x99", NULL},
    {0x1F9F, "\xE1\xBC\xAF\xCE\x99", NULL},
    {0x1FA0, "\xE1\xBD\xA8\xCE\x99", NULL},
    {0x1FA1, "\xE1\xBD\xA9\xCE\x99", NULL},
    {0x1FA2, "\xE1\xBD\xAA\xCE\x99", NULL},
    {0x1FA3, "\xE1\xBD\xAB\xCE\x99", NULL},
    {0x1FA4, "\xE1\xBD\xAC\xCE\x99", NULL},
    {0x1FA5, "\xE1\xBD\xAD\xCE\x99", NULL},
    {0x1FA6, "\xE1\xBD\xAE\xCE\x99", NULL},
    {0x1FA7, "\xE1\xBD\xAF\xCE\x99", NULL},
    {0x1FA8, "\xE1\xBD\xA8\xCE\x99", NULL},
    {0x1FA9, "\xE1\xBD\xA9\xCE\x99", NULL},
    {0x1FAA, "\xE1\xBD\xAA\xCE\x99", NULL},
    {0x1FAB, "\xE1\xBD\xAB\xCE\x99", NULL},
    {0x1FAC, "\xE1\xBD\xAC\xCE\x99", NULL},
    {0x1FAD, "\xE1\xBD\xAD\xCE\x99", NULL},
    {0x1FAE, "\xE1\xBD\xAE\xCE\x99", NULL},
    {0x1FAF, "\xE1\xBD\xAF\xCE\x99", NULL},
    {0x1FB2, "\xE1\xBE\xBA\xCE\x99", "\xE1\xBE\xBA\xCD\x85"},
    {0x1FB3, "\xCE\x91\xCE\x99", NULL},
    {0x1FB4, "\xCE\x86\xCE\x99", "\xCE\x86\xCD\x85"},
    {0x1FB6, "\xCE\x91\xCD\x82", "\xCE\x91\xCD\x82"},
    {0x1FB7, "\xCE\x91\xCD\x82\xCE\x99", "\xCE\x91\xCD\x82\xCD\x85"},
    {0x1FBC, "\xCE\x91\xCE\x99", NULL},
    {0x1FC2, "\xE1\xBF\x8A\xCE\x99", "\xE1\xBF\x8A\xCD\x85"},
    {0x1FC3, "\xCE\x97\xCE\x99", NULL},
    {0x1FC4, "\xCE\x89\xCE\x99", "\xCE\x89\xCD\x85"},
    {0x1FC6, "\xCE\x97\xCD\x82", "\xCE\x97\xCD\x82"},
    {0x1FC7, "\xCE\x97\xCD\x82\xCE\x99", "\xCE\x97\xCD\x82\xCD\x85"},
    {0x1FCC, "\xCE\x97\xCE\x99", NULL},
    {0x1FD2, "\xCE\x99\xCC\x88\xCC\x80", "\xCE\x99\xCC\x88\xCC\x80"},
    {0x1FD3, "\xCE\x99\xCC\x88\xCC\x81", "\xCE\x99\xCC\x88\xCC\x81"},
    {0x1FD6, "\xCE\x99\xCD\x82", "\xCE\x99\xCD\x82"},
    {0x1FD7, "\xCE\x99\xCC\x88\xCD\x82", "\xCE\x99\xCC\x88\xCD\x82"},
    {0x1FE2, "\xCE\xA5\xCC\x88\xCC\x80", "\xCE\xA5\xCC\x88\xCC\x80"},
    {0x1FE3, "\xCE\xA5\xCC\x88\xCC\x81", "\xCE\xA5\xCC\x88\xCC\x81"},
    {0x1FE4, "\xCE\xA1\xCC\x93", "\xCE\xA1\xCC\x93"},
    {0x1FE6, "\xCE\xA5\xCD\x82", "\xCE\xA5\xCD\x82"},
    {0x1FE7, "\xCE\xA5\xCC\x88\xCD\x82", "\xCE\xA5\xCC\x88\xCD\x82"},
    {0x1FF2, "\xE1\xBF\xBA\xCE\x99", "\xE1\xBF\xBA\xCD\x85"},
    {0x1FF3, "\xCE\xA9\xCE\x99", NULL},
    {0x1FF4, "\xCE\x8F\xCE\x99", "\xCE\x8F\xCD\x85"},
    {0x1FF6, "\xCE\xA9\xCD\x82", "\xCE\xA9\xCD\x82"},
    {0x1FF7, "\xCE\xA9\xCD\x82\xCE\x99", "\xCE\xA9\xCD\x82\xCD\x85"},
    {0x1FFC, "\xCE\xA9\xCE\x99", NULL},
    {0xFB00, "\x46\x46", "\x46\x66"},
    {0xFB01, "\x46\x49", "\x46\x69"},
    {0xFB02, "\x46\x4C", "\x46\x6C"},
    {0xFB03, "\x46\x46\x49", "\x46\x66\x69"},
    {0xFB04, "\x46\x46\x4C", "\x46\x66\x6C"},
    {0xFB05, "\x53\x54", "\x53\x74"},
    {0xFB06, "\x53\x54", "\x53\x74"},
    {0xFB13, "\xD5\x84\xD5\x86", "\xD5\x84\xD5\xB6"},
    {0xFB14, "\xD5\x84\xD4\xB5", "\xD5\x84\xD5\xA5"},
    {0xFB15, "\xD5\x84\xD4\xBB", "\xD5\x84\xD5\xAB"},
    {0xFB16, "\xD5\x8E\xD5\x86", "\xD5\x8E\xD5\xB6"},
    {0xFB17, "\xD5\x84\xD4\xBD", "\xD5\x84\xD5\xAD"},
};
/* clang-format on */

static const struct {
    const struct jinja_range_of_chars *ranges;
    size_t n;
} sets[] = {
    [JINJA_SET_OTHER_LOWER] = {other_lower, sizeof(other_lower) / sizeof(*other_lower)},
    [JINJA_SET_OTHER_UPPER] = {other_upper, sizeof(other_upper) / sizeof(*other_upper)},
    [JINJA_SET_OTHER_DIGIT] = {other_digit, sizeof(other_digit) / sizeof(*other_digit)},
    [JINJA_SET_OTHER_NUMERIC] = {other_numeric, sizeof(other_numeric) / sizeof(*other_numeric)},
    [JINJA_SET_IDENTIFIER_START] = {identifier_start,
                                    sizeof(identifier_start) / sizeof(*identifier_start)},
    [JINJA_SET_IDENTIFIER_CONTINUE] = {identifier_continue,
                                       sizeof(identifier_continue) / sizeof(*identifier_continue)},
};

static int compare_range(const void *key, const void *range) {
    uint32_t cp = *(const uint32_t *)key;
    const struct jinja_range_of_chars *r = range;
    return cp < r->low ? -1 : cp > r->high;
}

bool jinja_unicode_is(uint32_t cp, enum jinja_char_set set) {
    return cp >= 0x80 &&
           bsearch(&cp, sets[set].ranges, sets[set].n, sizeof(*sets[set].ranges), compare_range);
}

static int compare_case(const void *key, const void *entry) {
    uint32_t cp = *(const uint32_t *)key, other = ((const struct long_case *)entry)->cp;
    return (cp > other) - (cp < other);
}

const char *jinja_unicode_long_case(uint32_t cp, bool is_title) {
    const struct long_case *found =
        bsearch(&cp, long_cases, sizeof(long_cases) / sizeof(*long_cases), sizeof(*long_cases),
                compare_case);
    if (!found) return NULL;
    return is_title ? found->title : found->upper;
}
