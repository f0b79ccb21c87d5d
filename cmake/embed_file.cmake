# Embed a file at build time as a text: cmake -DOUT=<file.c> -DINPUT=<file> -DNAME=<of the array> -DHEADER=<file.h> -P embed_file.cmake
file(READ ${INPUT} hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," hex "${hex}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" hex "${hex}")
file(WRITE ${OUT} "/* made by cmake/embed_file.cmake */\n#include \"${HEADER}\"\nconst char ${NAME}[] = {\n${hex}0};\n")
