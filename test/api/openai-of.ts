import OpenAI from 'openai'
import type { RunningServer } from '../running-server.ts'

/** An openai client for a server; it does not retry. */
export const clientOf = ({ url }: RunningServer, apiKey = 'none') =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 })

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
/** Whether this Node version has `node:sqlite`, which `--state sqlite:` needs. */
export const HAS_SQLITE = major > 22 || (major === 22 && minor >= 5)
