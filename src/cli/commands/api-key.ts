/** The key that a command sends to a server. */
import { BatonError } from '../../base/index.ts'

/**
 * `flag`: the value of `--api-key`, which comes before `BATON_API_KEY`; null: no key. Throws `config.invalid` for a key
 * that no header can have, without the key: `fetch` would name it, as the fault of the server.
 */
export function apiKey(flag?: unknown): string | null {
  const isFlag = typeof flag === 'string'
  const key = (isFlag ? flag : (process.env['BATON_API_KEY'] ?? '')).trim()
  if (key === '') return null
  if (/^[\x20-\x7E]+$/.test(key)) return key
  const name = isFlag ? '--api-key' : 'BATON_API_KEY'
  throw new BatonError(
    'config.invalid',
    `${name} is invalid: expected a key in one line, of ASCII characters`,
  )
}
