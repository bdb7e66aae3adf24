/**
 * How V8 keeps memory in a process of Baton.
 *
 * V8 watches where objects that survive are made, and from then on makes all objects of that place in the old generation
 * ("allocation site pretenuring"), for good. In a server the first collections see little but requests in flight, so objects
 * of a request are judged to be long-lived. Each of them then keeps everything it points to until the next full collection:
 * 11 kB of a request were copied into the old generation, half of the CPU of a forwarded request was spent so.
 *
 * The young generation grows to 32 MB (Node 20) or 128 MB (Node 24) under load, all of it resident, and none of it stays in the
 * processor's cache. Half of Node 20's is enough.
 */
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8'

/** Before anything is served. */
export function keepRequestsYoung(): void {
  setFlagsFromString('--no-allocation-site-pretenuring')
}

const YOUNG_BYTES_MAX = 16 * 1024 * 1024
const LOOK_EVERY_MS = 500

/** Of the calling thread; V8's flags are those of the process, which has other threads' heaps bounded when they are made. */
export function youngGenerationBytes(): number {
  return (
    getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space')?.space_size ?? 0
  )
}

/**
 * Holds the young generation at `bytesMax`. V8 takes its size at the start of the process only, but asks at each growth by what
 * factor; it may shrink in between, so the factor is looked after for as long as the process lives. Returns how to stop.
 */
export function boundYoungGeneration(
  bytesMax = YOUNG_BYTES_MAX,
  lookEveryMs = LOOK_EVERY_MS,
): () => void {
  let factor = 0
  const look = (): void => {
    const wanted = youngGenerationBytes() * GROWTH > bytesMax ? 1 : GROWTH
    if (wanted === factor) return
    factor = wanted
    setFlagsFromString(`--semi-space-growth-factor=${factor}`)
  }
  look()
  const timer = setInterval(look, lookEveryMs)
  timer.unref()
  return () => {
    clearInterval(timer)
    setFlagsFromString(`--semi-space-growth-factor=${GROWTH}`)
  }
}

/** V8's own. */
const GROWTH = 2
