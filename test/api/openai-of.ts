import OpenAI from 'openai'
import type { RunningServer } from '../running-server.ts'

/** The openai client of a server; it does not ask again by itself. */
export const clientOf = ({ url }: RunningServer, apiKey = 'none') =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 })

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
/** `--state sqlite:` needs `node:sqlite`. */
export const HAS_SQLITE = major > 22 || (major === 22 && minor >= 5)
