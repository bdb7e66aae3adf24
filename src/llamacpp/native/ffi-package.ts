/**
 * The addon that calls C functions: koffi's platform packages, loaded as they are. The package `koffi` around them adds names of
 * earlier versions, and an install script that some package managers refuse.
 */

/** There is one for each platform that llama.cpp's libraries are shipped for. */
export const FFI_NAME = `@koromix/koffi-${process.platform}-${process.arch}`

export const FFI_VERSION = '3.3.4'
