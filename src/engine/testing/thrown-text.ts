/** Describes what an engine has thrown, for the report of the kit: with the kind of the error. */
import { shown } from '../shown.ts'

export function thrownText(thrown: unknown): string {
  try {
    return thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : shown(thrown)
  } catch {
    return `an unreadable ${typeof thrown}`
  }
}
