/**
 * Records a web page as an animated image, as fast as screenshots can be taken, played at the original speed.
 */
import type { Page } from 'playwright-core'
import { animatedWebp } from './animated-webp.ts'
import type { Frame } from './animated-webp.ts'

interface Recording {
  readonly forMs: number
  readonly width: number
  readonly height: number
  /** The width of the image in pixels; the height follows. */
  readonly pictureWidth: number
}

/**
 * Encodes what has changed since the previous image as `{ webp, x, y, width, height }`, or null when nothing has.
 */
const ENCODE = `async ({ png, width, height, quality }) => {
  const bytes = Uint8Array.from(atob(png), (c) => c.charCodeAt(0))
  const image = await createImageBitmap(new Blob([bytes]), { resizeWidth: width, resizeHeight: height, resizeQuality: 'high' })
  const context = new OffscreenCanvas(width, height).getContext('2d', { alpha: false })
  context.drawImage(image, 0, 0)
  const now = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer)
  const before = globalThis.before ?? null
  globalThis.before = now
  let [left, top, right, bottom] = before === null ? [0, 0, width, height] : [width, height, 0, 0]
  if (before !== null) {
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        if (now[y * width + x] === before[y * width + x]) continue
        left = Math.min(left, x)
        right = Math.max(right, x + 1)
        top = Math.min(top, y)
        bottom = Math.max(bottom, y + 1)
      }
    }
    if (right === 0) return null
  }
  const [x, y] = [left - (left % 2), top - (top % 2)]
  const part = new OffscreenCanvas(right - x, bottom - y)
  part.getContext('2d', { alpha: false }).drawImage(context.canvas, -x, -y)
  const blob = await part.convertToBlob({ type: 'image/webp', quality })
  const webp = btoa(String.fromCharCode(...new Uint8Array(await blob.arrayBuffer())))
  return { webp, x, y, width: part.width, height: part.height }
}`

const QUALITY = 0.6

interface Encoded {
  readonly webp: string
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
}

/** `page` is recorded; `encoder` is another page, which encodes the images. */
export async function recordPage(
  page: Page,
  encoder: Page,
  { forMs, width, height, pictureWidth }: Recording,
): Promise<Uint8Array> {
  const shots: { readonly png: string; readonly atMs: number }[] = []
  const startMs = performance.now()
  for (let atMs = 0; atMs < forMs; atMs = performance.now() - startMs) {
    const png = await page.screenshot({ type: 'png', clip: { x: 0, y: 0, width, height } })
    shots.push({ png: png.toString('base64'), atMs })
  }
  const size = { width: pictureWidth, height: Math.round((pictureWidth * height) / width) }
  const frames: Frame[] = []
  for (const [i, { png, atMs }] of shots.entries()) {
    const durationMs = (shots[i + 1]?.atMs ?? forMs) - atMs
    const asked = JSON.stringify({ png, ...size, quality: QUALITY })
    const encoded = await encoder.evaluate<Encoded | null>(`(${ENCODE})(${asked})`)
    const last = frames.at(-1)
    if (encoded !== null)
      frames.push({ ...encoded, webp: Buffer.from(encoded.webp, 'base64'), durationMs })
    else if (last !== undefined)
      frames[frames.length - 1] = { ...last, durationMs: last.durationMs + durationMs }
  }
  return animatedWebp(size.width, size.height, frames)
}
