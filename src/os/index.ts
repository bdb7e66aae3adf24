/**
 * Room `os`: access to the operating system.
 *
 * Owns the real clock and randomness, the wait for microtasks that a virtual clock needs (`settle`), V8's memory
 * and compiler settings, the folder of a process, how many files it may open, reading of files with a limit, whether a process is alive, which addresses are loopback,
 * and what a terminal accepts.
 * May use: base. For: the rooms that touch the machine (network, discovery, llamacpp, host, cli).
 */
export { compileSooner } from './compiler-flags.ts'
export { boundOldGeneration, boundYoungGeneration, keepRequestsYoung } from './heap-flags.ts'
export { makeFolders } from './make-folders.ts'
export { isLoopback } from './loopback.ts'
export { fileErrorText, openFilesMax } from './open-files.ts'
export { osClock } from './os-clock.ts'
export { osRandom } from './os-random.ts'
export { isProcessAlive } from './process-alive.ts'
export { processPlace } from './process-place.ts'
export { PACKAGE_ROOT } from './package-root.ts'
export { makeProcessFolder } from './process-folder.ts'
export { readBoundedBytes, readSmallFile } from './files/read-small-file.ts'
export { watchContent } from './files/watch-content.ts'
export type { ProcessFolder } from './process-folder.ts'
export { settle } from './settle.ts'
export { takesColor, takesEscapes } from './terminal.ts'
