# Embed .sql files at build time: cmake -DOUT=<path without ending> -DINPUT=<a;b;c> -P embed_sql.cmake
# Queries become `const struct statement sql_<stem>` in OUT.h and OUT.c.
set(h "/* made by cmake/embed_sql.cmake */\n#pragma once\n#include \"core/db/statement.h\"\n")
set(c "/* made by cmake/embed_sql.cmake */\n")
foreach(file IN LISTS INPUT)
  get_filename_component(stem ${file} NAME_WE)
  file(READ ${file} hex HEX)  # bytes, so that no character of SQL means anything to CMake or C
  string(REGEX REPLACE "3b(0a)*$" "" hex "${hex}")  # the prepared form has no final semicolon
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
  string(APPEND c "static const char text_${stem}[] = {${bytes}0};\n")
  string(APPEND h "extern const struct statement sql_${stem};\n")
  string(APPEND c "const struct statement sql_${stem} = {\"${stem}\", text_${stem}};\n")
  string(APPEND table "    &sql_${stem},\n")
endforeach()
get_filename_component(dir ${OUT} DIRECTORY)
get_filename_component(dir ${dir} NAME)
string(APPEND h "extern const struct statement *const sql_${dir}_all[]; /* ends with NULL */\n")
file(WRITE ${OUT}.h "${h}")
file(WRITE ${OUT}.c "#include \"${dir}/statements.h\"\n${c}const struct statement *const sql_${dir}_all[] = {\n${table}    0};\n")
