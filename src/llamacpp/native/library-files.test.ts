import { describe, expect, it } from 'vitest'
import { BatonError } from '../../base/index.ts'
import { packagesFor } from './library-files.ts'
import type { GpuChoice } from './library-files.ts'

function packagesOrFault(gpu: GpuChoice, system: string, architecture: string): string {
  try {
    return packagesFor(gpu, { system, architecture }).join(' ').replaceAll('@node-llama-cpp/', '')
  } catch (error) {
    return BatonError.from(error).message
  }
}

describe('packages of llama.cpp', () => {
  it.each([
    [false, 'linux', 'x64', 'linux-x64'],
    [false, 'linux', 'arm', 'linux-armv7l'],
    [false, 'darwin', 'arm64', 'mac-arm64-metal'],
    [false, 'win32', 'arm64', 'win-arm64'],
    ['auto', 'linux', 'x64', 'linux-x64-cuda linux-x64-vulkan'],
    ['vulkan', 'win32', 'x64', 'win-x64-vulkan'],
    ['auto', 'darwin', 'arm64', 'mac-arm64-metal'],
  ] as const)('gpu %s on %s %s - %s', (gpu, system, architecture, packages) => {
    expect(packagesOrFault(gpu, system, architecture)).toBe(packages)
  })

  it.each([
    ['metal', 'linux', 'x64', 'use --gpu off or --gpu cuda or --gpu vulkan'],
    ['cuda', 'darwin', 'arm64', 'use --gpu off or --gpu metal'],
    ['auto', 'darwin', 'x64', 'use --gpu off'],
    ['cuda', 'linux', 'arm64', 'use --gpu off'],
    [false, 'freebsd', 'x64', 'use --engine sim'],
  ] as const)(
    'gpu %s on %s %s, which has no package - is refused and never named for installation',
    (gpu, system, architecture, advice) => {
      const fault = packagesOrFault(gpu, system, architecture)
      expect(fault).toContain('is not available')
      expect(fault).toContain(advice)
      expect(fault).not.toContain('npm i')
    },
  )
})
