/** Some ranks of a pool: those that a request may go to. */
export interface RankGroup {
  /** Equal for the same ranks. */
  readonly key: string
  /** Null: all. */
  readonly slots: readonly number[] | null
}

export const ANYWHERE: RankGroup = { key: '', slots: null }
