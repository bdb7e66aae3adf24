/**
 * How a command asks a running server, and what it says when none answers.
 */
import { request } from 'undici'
import { BatonError } from '../base/index.ts'

/** Throws `config.invalid` when it is no address of a web server. */
export function serverUrl(given: unknown): string {
  const url = String(given)
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new BatonError(
      'config.invalid',
      `--url: ${url} is no address of a server; one is http://127.0.0.1:8000`,
    )
  }
  return url
}

/** Throws `transport.cannot_connect` with what to do when nobody answers, or somebody else does. */
export async function askServer(
  url: string,
  path: string,
): Promise<{ readonly status: number; readonly body: unknown }> {
  const reply = await request(new URL(path, url)).catch((error: unknown) => {
    throw noServer(url, error)
  })
  const text = await reply.body.text()
  try {
    return { status: reply.statusCode, body: JSON.parse(quotedWorkerIds(text)) as unknown }
  } catch (error) {
    const message = `what answers at ${url} is no Baton server: name yours with --url`
    throw new BatonError('transport.cannot_connect', message, { cause: error })
  }
}

export function noServer(url: string, cause: unknown): BatonError {
  return new BatonError(
    'transport.cannot_connect',
    `no server at ${url}: start one with 'baton serve', or name it with --url`,
    { cause },
  )
}

/** Worker ids have 64 bits and stand as plain integers in a reply, of which `JSON.parse` would lose the last digits. */
export function quotedWorkerIds(json: string): string {
  return json.replace(/"([a-z_]*worker_id|workerId)":\s*(\d{1,20})/g, '"$1":"$2"')
}
