/** Length of the text that all prompts have before their own part: whole sentences or lines. 0 for a single prompt, and if one has no part of its own. */
export function instructionLength([first = '', ...others]: readonly string[]): number {
  let shared = others.length === 0 ? 0 : first.length;
  for (const other of others) {
    let same = 0;
    while (same < shared && other[same] === first[same]) same += 1;
    shared = same === other.length ? 0 : same;
  }
  if (shared === first.length) return 0;
  return /^[^]*[.:!?>\n]\s*/.exec(first.slice(0, shared))?.[0].length ?? 0;
}
