/**
 * GBNF rules for plain JSON values, the base of every schema's grammar. Blanks and digits are limited, because an
 * undecided model would repeat them forever. Lone surrogates cannot be written as escapes.
 */
const RULES = String.raw`ws ::= ( " " | "\n" [ \t]{0,16} )?
value ::= object | array | string | number | boolean | null
object ::= "{" ws ( string ":" ws value ( "," ws string ":" ws value )* )? "}" ws
array ::= "[" ws ( value ( "," ws value )* )? "]" ws
char ::= [^"\\\x00-\x1f\x7f] | "\\" ( ["\\/bfnrt] | "u" ( [0-9a-cA-CeEfF] [0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2} ) )
char-100 ::= char{100}
string ::= "\"" char* "\"" ws
natural ::= ( "0" | [1-9] [0-9]{0,14} )
decimals ::= ( "." [0-9]{1,15} )? ( [eE] [-+]? [0-9]{1,2} )?
integer ::= "-"? natural ws
number ::= "-"? natural decimals ws
boolean ::= ( "true" | "false" ) ws
null ::= "null" ws
`

export function jsonRules(): string {
  return RULES
}

/** Any object, as guaranteed by the JSON mode of chat completions. */
export function anyJsonGbnf(): string {
  return `root ::= object\n${RULES}`
}
