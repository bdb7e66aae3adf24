/**
 * The word that a row of `LooseTable` keeps beside the hash of its block.
 *
 *   | ref 24 | age 7 | is followed 1 |   ref > 0: the one stay that has it (`Tenancies`);
 *                                        ref < 0: -ref - 1 is where their list is (`OwnerLists`), by fours
 */
export const REF_BITS = 8
const FLAG_MASK = (1 << REF_BITS) - 1
export const AGE_SHIFT = 1
const AGE_MASK = 127
export const FOLLOWED = 1
/** All but the age. */
export const OWN_MASK = ~(AGE_MASK << AGE_SHIFT)
/** Who has the block. */
export const REF_MASK = ~FLAG_MASK
/** Words of owner lists that can be named. */
export const LIST_WORDS_MAX = 1 << 24

export const ageOf = (word: number): number => (word >> AGE_SHIFT) & AGE_MASK
export const withAge = (word: number, age: number): number => (word & OWN_MASK) | (age << AGE_SHIFT)
export const withRef = (word: number, ref: number): number => (ref << REF_BITS) | (word & FLAG_MASK)
export const listOf = (ref: number): number => (-ref - 1) << 2
export const refOf = (list: number): number => -(list >> 2) - 1
