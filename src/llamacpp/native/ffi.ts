/**
 * Calls of C functions: what this room uses of koffi's addon. Loading this file throws where the addon is not installed.
 */
import { createRequire } from 'node:module'
import { FFI_NAME } from './ffi-package.ts'

export interface Library {
  /** A function from its declaration in C. */
  func(declaration: string): (...values: never[]) => unknown
  /** The address of what the library exports under that name. */
  symbol(name: string): unknown
  unload(): void
}

interface Ffi {
  /** Throws when the library cannot be loaded. `global`: what it exports is there for those loaded later. */
  load(path: string, options?: { readonly global: boolean }): Library
  /** Names a struct for declarations; members are `name: type in C`. */
  struct(name: string, members: Readonly<Record<string, string>>): unknown
  /** Address of the memory of a typed array. */
  address(memory: ArrayBufferView): bigint
  /** Foreign memory as it is, not copied; `byteLength` bytes from the address or pointer on. */
  view(at: unknown, byteLength: number): ArrayBuffer
}

export const ffi = createRequire(import.meta.url)(FFI_NAME) as Ffi
