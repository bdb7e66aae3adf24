/**
 * Certificate and key of this process from files that are read again when one of them changes.
 *
 * Files that do not belong together, for example while only one of them was replaced, are reported, and the previous
 * content stays in use.
 */
import { BatonError } from '../../base/index.ts'
import { watchContent } from '../../os/index.ts'
import type { NamedCertificate } from './certificate-ages.ts'

/** A logger of the process. */
export interface CertificateLog {
  info(fields: object, text: string): void
  warn(fields: object, text: string): void
}

interface RenewedPemsOptions<T> {
  /** For the log. */
  readonly what: string
  readonly files: Readonly<Record<keyof T, { readonly flag: string; readonly path: string }>>
  /** Throws `config.invalid` when the files cannot be used. `silentMs`: how long to wait for a pipe. */
  readonly read: (limits: { readonly silentMs?: number }) => T
}

export class RenewedPems<T extends Readonly<Record<string, string>>> {
  readonly #options: RenewedPemsOptions<T>
  readonly #listeners = new Set<() => void>()
  #now: T

  /** Throws `config.invalid` when the files cannot be used. */
  constructor(options: RenewedPemsOptions<T>) {
    this.#options = options
    this.#now = options.read({})
  }

  get now(): T {
    return this.#now
  }

  /** The certificates among the files, as they are in use now. */
  get certificates(): readonly NamedCertificate[] {
    const { files } = this.#options
    return Object.keys(files)
      .filter((name) => name !== 'key')
      .map((name) => ({ ...files[name as keyof T], pem: this.#now[name] ?? '' }))
  }

  /** Returns a function that ends it. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Returns a function that ends the watch. */
  watch(log: CertificateLog): () => void {
    const ends = Object.entries(this.#options.files).map(([name, { path }]) =>
      watchContent(path, this.#now[name] ?? null, () => this.#renew(path, log)),
    )
    return () => {
      for (const end of ends) end()
    }
  }

  #renew(path: string, log: CertificateLog): void {
    const { what, read } = this.#options
    try {
      // Waiting for a pipe would stop all streams.
      const next = read({ silentMs: 0 })
      if (Object.entries(next).every(([name, text]) => this.#now[name] === text)) return
      this.#now = next
      for (const listener of this.#listeners) listener()
      log.info({ path }, `${what} was reloaded`)
    } catch (error) {
      const { message } = BatonError.from(error)
      log.warn({ path, message }, `${what} cannot be used: the previous one stays in use`)
    }
  }
}
