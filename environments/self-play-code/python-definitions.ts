/** Finds and renames functions in the text of a program, as upstream does: by its letters, not by its syntax. Linear in the text. */
import { isWhitespace, isWordAt, skipWhitespace } from 'vf-search/metrics/python-text';

const DEF = 'def';

/**
 * Names of the functions whose `def` begins a line, in order; inner functions and methods are among them.
 * Same as `re.findall(r"^\s*def\s+(\w+)\s*\(", code, re.MULTILINE)`.
 */
export function definedFunctions(code: string): string[] {
  const names: string[] = [];
  for (let at = code.indexOf(DEF); at !== -1; at = code.indexOf(DEF, at + DEF.length)) {
    const definition = beginsLine(code, at) ? definitionAt(code, at) : null;
    if (definition !== null) names.push(definition.name);
  }
  return names;
}

/** Tells whether only whitespace is between a line break, or the beginning, and the index. */
export function beginsLine(code: string, index: number): boolean {
  let at = index;
  while (at > 0 && isWhitespace(code.charCodeAt(at - 1))) {
    at--;
    if (code[at] === '\n') return true;
  }
  return at === 0;
}

interface Definition {
  readonly name: string;
  /** Index after the opening bracket. */
  readonly end: number;
}

function definitionAt(code: string, index: number): Definition | null {
  const start = skipWhitespace(code, index + DEF.length);
  if (start === index + DEF.length) return null;
  let end = start;
  while (isWordAt(code, end)) end += code.codePointAt(end)! > 0xffff ? 2 : 1;
  const bracket = skipWhitespace(code, end);
  return end > start && code[bracket] === '(' ? { name: code.slice(start, end), end: bracket + 1 } : null;
}

/** Renames the definitions and calls of a function, also in strings and comments, as upstream does. `f.name(` and `name (` count as calls. */
export function renamedFunction(code: string, from: string, to: string): string {
  return renamedCalls(renamedDefinitions(code, from, to), from, to);
}

/** `re.sub(rf"def\s+{from}\s*\(", f"def {to}(", code)`: the text before `def` does not count. */
function renamedDefinitions(code: string, from: string, to: string): string {
  let renamed = '';
  let kept = 0;
  for (let at = code.indexOf(DEF); at !== -1; at = code.indexOf(DEF, Math.max(at + DEF.length, kept))) {
    const definition = definitionAt(code, at);
    if (definition?.name !== from) continue;
    renamed += `${code.slice(kept, at)}def ${to}(`;
    kept = definition.end;
  }
  return renamed + code.slice(kept);
}

/** `re.sub(rf"\b{from}\s*\(", f"{to}(", code)` */
function renamedCalls(code: string, from: string, to: string): string {
  let renamed = '';
  let kept = 0;
  for (let at = code.indexOf(from); at !== -1; at = code.indexOf(from, Math.max(at + 1, kept))) {
    const bracket = skipWhitespace(code, at + from.length);
    if (code[bracket] !== '(' || isWordBefore(code, at)) continue;
    renamed += `${code.slice(kept, at)}${to}(`;
    kept = bracket + 1;
  }
  return renamed + code.slice(kept);
}

function isWordBefore(code: string, index: number): boolean {
  if (index === 0) return false;
  const before = code.charCodeAt(index - 1);
  const isLowSurrogate = before >= 0xdc00 && before <= 0xdfff && index > 1;
  return isWordAt(code, isLowSurrogate ? index - 2 : index - 1);
}
