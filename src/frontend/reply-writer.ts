/**
 * Who turns the choices of an exchange into what the client reads: as events while they come, or as one body.
 */
import type { BatonError } from '../base/index.ts'
import type { ChoiceOutput, ChoiceSink } from './choice-sink.ts'

export interface ReplyWriter {
  createOutput(index: number): ChoiceOutput
  /** In the order of the indexes, before anything is written. */
  addChoice(choice: ChoiceSink): void
  began(): void
  completed(): void
  brokeOff(error: BatonError): void
  keepAlive(): void
}
