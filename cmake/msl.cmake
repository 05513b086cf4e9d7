# The kernels of src/kernel/metal/kernels: in the program as text (and as a metallib, where Apple's compiler is there), and, to verify them
# elsewhere, compiled for the CPU.
#
#   mslpp               tools/msl: the pre-pass; also makes the flat text and the C file
#   radish_metal_source defines what kernel/metal/metal_source.h declares
#   msl_kernels         libmsl_kernels.so for metal-sim: every .metal, tests/metal/shim/selftest.metal and the runtime (msl_rt.h).
#                       ${PROJECT_BINARY_DIR}/msl/plain has it, msl/fast the same with what fast math may do, msl/traced one that tells the
#                       stand-in of each access: run a program with LD_LIBRARY_PATH=.../msl/fast to take that one.
#
# Rules of the kernels that this checks, file by file: tools/msl/msl_pass.c. Over all files (test msl_flat): names at program scope and indices
# of function constants are unique, as they are one text on a Mac without Xcode.
set(MSL_KERNELS ${PROJECT_SOURCE_DIR}/src/kernel/metal/kernels)
set(MSL_SHIM ${PROJECT_SOURCE_DIR}/tests/metal/shim)
set(MSL_ONLY "" CACHE STRING "Names of .metal files to compile for metal-sim ('rope;norm'), all when empty")

file(GLOB msl_files CONFIGURE_DEPENDS ${MSL_KERNELS}/*.metal)
file(GLOB msl_headers CONFIGURE_DEPENDS ${MSL_KERNELS}/*.h)

# The pre-pass is a small library, so that a fuzz target and a test reach it.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/msl/msl_*.c)
add_library(radish_msl STATIC ${sources})
target_include_directories(radish_msl PUBLIC ${PROJECT_SOURCE_DIR}/tools/msl)
target_link_libraries(radish_msl PUBLIC radish_base)
if(msl IN_LIST fuzzed)
  target_compile_options(radish_msl PRIVATE -fsanitize=fuzzer-no-link)
endif()
add_executable(mslpp ${PROJECT_SOURCE_DIR}/tools/msl/mslpp.c)
target_link_libraries(mslpp PRIVATE radish_msl)
set_target_properties(mslpp PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/msl)

# Not every build has the rest: without Metal only the pre-pass is tested.
if(NOT RADISH_METAL)
  return()
endif()

set(MSL_BUILD ${PROJECT_BINARY_DIR}/msl)
file(MAKE_DIRECTORY ${MSL_BUILD}/plain ${MSL_BUILD}/fast ${MSL_BUILD}/traced)

# A metallib where Xcode's compiler is there; the text is compiled at start otherwise.
set(msl_library "")
if(APPLE)
  find_program(MSL_XCRUN xcrun)
  # It has to run: Xcode 26 finds its name whether or not the compiler, a download of its own, is there.
  execute_process(COMMAND ${MSL_XCRUN} -sdk macosx metal --version RESULT_VARIABLE has_no_metal OUTPUT_QUIET ERROR_QUIET)
  if(MSL_XCRUN AND has_no_metal EQUAL 0)
    set(airs "")
    foreach(file ${msl_files})
      get_filename_component(name ${file} NAME_WE)
      add_custom_command(OUTPUT ${MSL_BUILD}/${name}.air
        COMMAND ${MSL_XCRUN} -sdk macosx metal -std=metal3.1 -fno-fast-math -mmacosx-version-min=14 -O2 -c ${file} -o ${MSL_BUILD}/${name}.air
        DEPENDS ${file} ${msl_headers} VERBATIM)
      list(APPEND airs ${MSL_BUILD}/${name}.air)
    endforeach()
    set(msl_library ${MSL_BUILD}/radish.metallib)
    add_custom_command(OUTPUT ${msl_library} COMMAND ${MSL_XCRUN} -sdk macosx metallib ${airs} -o ${msl_library} DEPENDS ${airs} VERBATIM)
  endif()
endif()

add_custom_command(OUTPUT ${MSL_BUILD}/flat.metal
  COMMAND mslpp --flatten ${MSL_BUILD}/flat.metal ${msl_files} DEPENDS mslpp ${msl_files} ${msl_headers} VERBATIM)
add_custom_command(OUTPUT ${MSL_BUILD}/metal_source.c
  COMMAND mslpp --embed ${MSL_BUILD}/metal_source.c ${MSL_BUILD}/flat.metal ${msl_library}
  DEPENDS mslpp ${MSL_BUILD}/flat.metal ${msl_library} VERBATIM)
add_library(radish_metal_source STATIC ${MSL_BUILD}/metal_source.c)
target_include_directories(radish_metal_source PRIVATE ${PROJECT_SOURCE_DIR}/src/kernel)
set_target_properties(radish_metal_source PROPERTIES POSITION_INDEPENDENT_CODE ON)

if(NOT RADISH_METAL_SIM)
  return()
endif()

# ---- for the CPU ----

find_program(MSL_CLANG NAMES clang++-19 clang++-20 clang++-21 REQUIRED)
set(msl_env ${CMAKE_COMMAND} -E env MSLPP=$<TARGET_FILE:mslpp> MSL_CLANG=${MSL_CLANG} "MSL_SANITIZE=${RADISH_SANITIZE}")
file(GLOB msl_shim_headers CONFIGURE_DEPENDS ${MSL_SHIM}/*.h)
set(msl_cc ${MSL_SHIM}/msl-cc)

# Under sanitizers neither fast math nor tracing would say more than without.
set(variants plain)
if(NOT RADISH_SANITIZE)
  list(APPEND variants fast traced)
endif()
foreach(source msl_rt msl_fiber msl_race msl_trace)
  add_custom_command(OUTPUT ${MSL_BUILD}/${source}.o COMMAND ${msl_env} ${msl_cc} runtime ${MSL_SHIM}/${source}.cpp ${MSL_BUILD}/${source}.o
    DEPENDS ${MSL_SHIM}/${source}.cpp ${msl_shim_headers} ${msl_cc} VERBATIM)
  list(APPEND runtime_objects ${MSL_BUILD}/${source}.o)
endforeach()
foreach(file ${msl_files} ${MSL_SHIM}/selftest.metal)
  get_filename_component(name ${file} NAME_WE)
  if(MSL_ONLY AND NOT name IN_LIST MSL_ONLY AND NOT name STREQUAL selftest)
    continue()
  endif()
  set(cpp ${MSL_BUILD}/${name}.cpp)
  add_custom_command(OUTPUT ${cpp} COMMAND ${msl_env} ${msl_cc} translate ${file} ${cpp} ${cpp}.d
    DEPENDS ${file} mslpp ${msl_shim_headers} ${msl_cc} DEPFILE ${cpp}.d COMMENT "MSL ${name}.metal" VERBATIM)
  foreach(variant ${variants})
    set(object ${MSL_BUILD}/${variant}/${name}.o)
    add_custom_command(OUTPUT ${object} COMMAND ${msl_env} ${msl_cc} object ${variant} ${cpp} ${object}
      DEPENDS ${cpp} ${msl_shim_headers} ${msl_cc} VERBATIM)
    list(APPEND ${variant}_objects ${object})
  endforeach()
endforeach()
foreach(variant ${variants})
  set(library ${MSL_BUILD}/${variant}/libmsl_kernels.so)
  add_custom_command(OUTPUT ${library} COMMAND ${msl_env} ${msl_cc} link ${library} ${runtime_objects} ${${variant}_objects}
    DEPENDS ${runtime_objects} ${${variant}_objects} ${msl_cc} VERBATIM)
  add_custom_target(msl_${variant} ALL DEPENDS ${library})
endforeach()
add_library(msl_kernels SHARED IMPORTED GLOBAL)
set_target_properties(msl_kernels PROPERTIES IMPORTED_LOCATION ${MSL_BUILD}/plain/libmsl_kernels.so IMPORTED_SONAME libmsl_kernels.so)
target_include_directories(msl_kernels INTERFACE ${MSL_SHIM})
# A run path gives way to LD_LIBRARY_PATH only in this form.
target_link_options(msl_kernels INTERFACE -Wl,--enable-new-dtags)
add_dependencies(msl_kernels msl_plain)
