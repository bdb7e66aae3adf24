/**
 * `baton explain <id>`: asks a running server why a request ran where it ran.
 */
import { request } from 'undici'
import { EXIT_FAILED } from '../host/index.ts'
import { noServer } from './no-server.ts'

export const EXPLAIN_HELP = `
The id is the x-request-id of a reply (or the id of its chat completion).`

export async function runExplain(requestId: string, url: string): Promise<number> {
  const target = new URL(`/debug/requests/${encodeURIComponent(requestId)}`, url)
  const reply = await request(target).catch((error: unknown) => {
    throw noServer(url, error)
  })
  const body = (await reply.body.json()) as { error?: { message?: string } }
  if (reply.statusCode !== 200) {
    console.error(`baton: ${body.error?.message ?? `the server answered ${reply.statusCode}`}`)
    return EXIT_FAILED
  }
  console.log(JSON.stringify(body, null, 2))
  return 0
}
