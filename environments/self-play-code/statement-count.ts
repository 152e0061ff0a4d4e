/** Statements of the function's body, without a last `return` of a name. An approximation for programs that are not written one statement a line. */
export function statementCount({ snippet }: { readonly snippet: string }): number {
  const body = snippet.slice(snippet.indexOf('):') + 2);
  const statements = body.split(/[\n;]/).map((line) => line.trim());
  return statements.filter((line) => line !== '' && !line.startsWith('#') && !/^return\s+\w+$/.test(line)).length;
}
