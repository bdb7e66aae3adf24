/** GBNF rules of JSON values; the base of every schema's grammar. */

/** Names of the rules that `jsonRules` defines. */
export type JsonRule =
  | 'value'
  | 'object'
  | 'array'
  | 'string'
  | 'number'
  | 'integer'
  | 'boolean'
  | 'null'

const RULES = `ws ::= [ \\t\\n]{0,8}
value ::= object | array | string | number | boolean | null
object ::= "{" ws ( string ":" ws value ( "," ws string ":" ws value )* )? "}" ws
array ::= "[" ws ( value ( "," ws value )* )? "]" ws
char ::= [^"\\\\\\x00-\\x1f\\x7f] | "\\\\" ( ["\\\\/bfnrt] | "u" [0-9a-fA-F]{4} )
string ::= "\\"" char* "\\"" ws
integer ::= "-"? ( "0" | [1-9] [0-9]{0,15} ) ws
number ::= "-"? ( "0" | [1-9] [0-9]{0,15} ) ( "." [0-9]{1,16} )? ( [eE] [-+]? [0-9]{1,3} )? ws
boolean ::= ( "true" | "false" ) ws
null ::= "null" ws
`

export function jsonRules(): string {
  return RULES
}

/** An object, as the JSON mode of chat completions promises. */
export function anyJsonGbnf(): string {
  return `root ::= object\n${RULES}`
}
