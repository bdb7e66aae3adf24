/**
 * Why a NATS server accepts no more clients. It says so with its first words and closes the connection, which the
 * client library reports as a timeout.
 */
import { connect } from 'node:net'

const ANSWER_MS = 1_000
/** The description of a server, which comes first, has a few hundred bytes. */
const ANSWER_LENGTH_MAX = 64 * 1024

/** `servers`: `host:port` each. Null: none of them refuses. */
export async function serverRefusal(servers: readonly string[]): Promise<string | null> {
  const refusals = await Promise.all(servers.map(refusalOf))
  return refusals.find((refusal) => refusal !== null) ?? null
}

function refusalOf(server: string): Promise<string | null> {
  const { hostname, port } = new URL(`nats://${server}`)
  return new Promise((resolve) => {
    let text = ''
    const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 4222) })
    const end = (refusal: string | null): void => {
      clearTimeout(late)
      socket.destroy()
      resolve(refusal)
    }
    const late = setTimeout(() => end(null), ANSWER_MS)
    socket.setEncoding('utf8')
    socket.on('data', (piece: string) => {
      text += piece
      const refusal = /^-ERR '(.*)'\r$/m.exec(text)?.[1]
      if (refusal !== undefined || text.length > ANSWER_LENGTH_MAX) end(refusal ?? null)
    })
    socket.on('error', () => end(null))
    socket.on('close', () => end(null))
  })
}
