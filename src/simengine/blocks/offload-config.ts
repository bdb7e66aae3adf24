/** Options for host memory and disk behind the device's KV cache, and their validated form. */
import { BatonError } from '../../base/index.ts'

export interface OffloadOptions {
  readonly hostBlocks: number
  /** Default 0: no disk. */
  readonly diskBlocks?: number
  /** Number of blocks that are copied together and arrive together. Default: all queued blocks. */
  readonly batchBlocks?: number
  /** In GB/s (1e9 bytes) per direction; absent or 0: copying takes no time. */
  readonly bandwidth?: Readonly<Partial<Record<OffloadDirection, number>>>
}

export type OffloadDirection = 'deviceToHost' | 'hostToDevice' | 'hostToDisk' | 'diskToHost'

export interface OffloadConfig {
  readonly hostBlocks: number
  readonly diskBlocks: number
  readonly batchBlocks: number
  readonly msPerBlock: Readonly<Record<OffloadDirection, number>>
}

/** `blockBytes` is 0 if the KV size per token is not known: bandwidths are then refused. */
export function createOffloadConfig(options: OffloadOptions, blockBytes: number): OffloadConfig {
  const { hostBlocks, diskBlocks = 0, batchBlocks = Infinity, bandwidth = {} } = options
  whole('offload.hostBlocks', hostBlocks, 1)
  whole('offload.diskBlocks', diskBlocks, 0)
  if (batchBlocks !== Infinity) whole('offload.batchBlocks', batchBlocks, 1)
  const msOf = (direction: OffloadDirection): number => {
    const gigabytesPerSecond = bandwidth[direction] ?? 0
    if (!(gigabytesPerSecond >= 0)) refuse(`offload.bandwidth.${direction}`, 'a number ≥ 0')
    if (gigabytesPerSecond === 0) return 0
    if (blockBytes === 0) refuse('offload.bandwidth', 'given together with kvBytesPerToken')
    return blockBytes / (gigabytesPerSecond * 1e6)
  }
  return {
    hostBlocks,
    diskBlocks,
    batchBlocks,
    msPerBlock: {
      deviceToHost: msOf('deviceToHost'),
      hostToDevice: msOf('hostToDevice'),
      hostToDisk: msOf('hostToDisk'),
      diskToHost: msOf('diskToHost'),
    },
  }
}

function whole(name: string, value: number, least: number): void {
  if (!Number.isSafeInteger(value) || value < least) refuse(name, `a whole number ≥ ${least}`)
}

function refuse(name: string, wanted: string): never {
  throw new BatonError('config.invalid', `${name} must be ${wanted}`, { data: { option: name } })
}
