/**
 * Reads certificates and keys from files. A file that cannot be used is reported with the option that names it
 * (`config.invalid`).
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { BatonError, messageOf } from '../../base/index.ts'
import { readSmallFile } from '../../os/index.ts'

export function readPemFile(
  flag: string,
  path: string,
  limits: { readonly silentMs?: number } = {},
): string {
  let text: string
  try {
    text = readSmallFile(path, limits)
  } catch (error) {
    const { message } = BatonError.from(error)
    throw new BatonError('config.invalid', `${flag}: ${message}`, { cause: error })
  }
  if (text.includes('-----BEGIN ')) return text
  throw new BatonError('config.invalid', `${flag}: ${path} is invalid: expected a PEM file`)
}

/** Throws `config.invalid` for broken PEM content, and for a key that does not belong to the certificate. */
export function checkedPair(
  pem: { readonly cert: string; readonly key: string; readonly ca?: string },
  flags: { readonly cert: string; readonly key: string },
): void {
  const certificate = certificateOf(flags.cert, pem.cert)
  const privateKey = usable(flags.key, () => createPrivateKey(pem.key))
  if (!certificate.checkPrivateKey(privateKey)) {
    const text = `${flags.key}: the key does not belong to the certificate of ${flags.cert}`
    throw new BatonError('config.invalid', text)
  }
  // Reads the rest of the chain, too.
  usable(flags.cert, () => createSecureContext(pem))
}

export function certificateOf(flag: string, pem: string): X509Certificate {
  return usable(flag, () => new X509Certificate(pem))
}

function usable<T>(flag: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    const reason = messageOf(error)
    throw new BatonError('config.invalid', `${flag}: the file is broken: ${reason}`, {
      cause: error,
    })
  }
}
