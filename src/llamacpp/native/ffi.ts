/**
 * Calls of C functions: the part of koffi's addon that this room uses. Loading this file throws when the addon is
 * not installed.
 */
import { createRequire } from 'node:module'
import { FFI_NAME } from './ffi-package.ts'

export interface Library {
  /** A function from its C declaration. */
  func(declaration: string): (...values: never[]) => unknown
  /** The address of an exported symbol. */
  symbol(name: string): unknown
  unload(): void
}

interface Ffi {
  /** Throws when the library cannot be loaded. `global`: its symbols are visible to libraries loaded later. */
  load(path: string, options?: { readonly global: boolean }): Library
  /** Names a struct for declarations; members are `name: type in C`. */
  struct(name: string, members: Readonly<Record<string, string>>): unknown
  /** The address of a typed array's memory. */
  address(memory: ArrayBufferView): bigint
  /** A view of foreign memory without a copy: `byteLength` bytes from the address or pointer on. */
  view(at: unknown, byteLength: number): ArrayBuffer
}

export const ffi = createRequire(import.meta.url)(FFI_NAME) as Ffi
