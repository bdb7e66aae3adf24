/**
 * The word that a row of `LooseTable` has beside the hash of its block.
 *
 *   | ref 24 | age 7 | followed 1 |
 *     ref > 0   the block has one owner: its stay in `Tenancies`
 *     ref < 0   the block has several owners: their list is at word 4 × (-ref - 1) of `OwnerLists`,
 *               or, below -2²², the lower 22 bits are a set of the stays 1 .. 22
 *     followed  a run begins after the block
 */
export const REF_BITS = 8
const FLAG_MASK = (1 << REF_BITS) - 1
export const AGE_SHIFT = 1
const AGE_MASK = 127
export const FOLLOWED = 1
/** All bits except the age. */
export const OWN_MASK = ~(AGE_MASK << AGE_SHIFT)
/** The bits that name the owner or owners. */
export const REF_MASK = ~FLAG_MASK
/** Number of words in `OwnerLists` that a ref can address. */
export const LIST_WORDS_MAX = 1 << 24

/** A set can contain the stays 1 .. `SET_STAYS`. */
export const SET_STAYS = 22
export const SET_EMPTY = -(1 << (SET_STAYS + 1))

export const ageOf = (word: number): number => (word >> AGE_SHIFT) & AGE_MASK
export const withAge = (word: number, age: number): number => (word & OWN_MASK) | (age << AGE_SHIFT)
export const withRef = (word: number, ref: number): number => (ref << REF_BITS) | (word & FLAG_MASK)
export const listOf = (ref: number): number => (-ref - 1) << 2
export const refOf = (list: number): number => -(list >> 2) - 1
export const isSet = (ref: number): boolean => ref < -(1 << SET_STAYS)
/** The stays of a set, a bit each; 0 if the ref is not one. */
export const setOf = (ref: number): number => (isSet(ref) ? ref & ~SET_EMPTY : 0)
export const firstIn = (set: number): number => 32 - Math.clz32(set & -set)
