/**
 * The addon that calls C functions: koffi's platform packages, loaded directly. The package `koffi` itself adds
 * compatibility names, and an install script that some package managers refuse.
 */

/** Exists for each platform that llama.cpp's libraries are shipped for. */
export const FFI_NAME = `@koromix/koffi-${process.platform}-${process.arch}`

export const FFI_VERSION = '3.3.4'
