/**
 * V8 memory settings for a process of Baton.
 *
 * V8 observes where surviving objects are allocated, and from then on allocates all objects of that place in the old
 * generation, permanently ("allocation site pretenuring"). In a server the first collections see mostly requests in
 * flight, so V8 takes objects of a request for long-lived ones. Each of them keeps everything it refers to until the
 * next full collection: 11 kB per request were copied into the old generation, which took half of the CPU time of a
 * forwarded request.
 *
 * The old generation grows to three or four times what is in use before it is collected, because collections are fast
 * compared with its growth. Twice as much is enough. With long bodies, whose buffers count too, V8 does the opposite
 * and collects after every 10 to 20 MB.
 *
 * Under load the young generation grows to 32 MB (Node 20) or 128 MB (Node 24). All of it is resident and exceeds
 * the processor's cache. Half of Node 20's size is enough.
 */
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8'

/** Call it before anything is served. */
export function keepRequestsYoung(): void {
  setFlagsFromString('--no-allocation-site-pretenuring')
}

const OLD_GROWTH_PERCENT = 100

/** The old generation is collected when it is twice as large as after the last collection. Call it at the start. */
export function boundOldGeneration(): void {
  setFlagsFromString(`--heap-growing-percent=${OLD_GROWTH_PERCENT}`)
}

const YOUNG_BYTES_MAX = 16 * 1024 * 1024
const LOOK_EVERY_MS = 500

/** For the calling thread. V8's flags apply to the whole process, whose other threads have their own limits. */
export function youngGenerationBytes(): number {
  return (
    getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space')?.space_size ?? 0
  )
}

/**
 * Limits the young generation to `bytesMax`. V8 reads its maximum size only at the start of the process, but reads
 * the growth factor at each growth. The generation may also shrink, so the factor is adjusted for as long as the
 * process runs. Returns a function that ends this.
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

/** V8's default. */
const GROWTH = 2
