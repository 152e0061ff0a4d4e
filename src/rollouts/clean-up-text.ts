/** What a user reads where environments could not clean up after themselves: their rewards count, but containers or files may be left. */
export function cleanUpText(first: string, { failed, played }: { readonly failed: number; readonly played: number }): string {
  return `Clean-up failed in ${failed} of ${played} rollouts: ${first}${first.endsWith('.') ? '' : '.'} Their rewards count, but containers, processes or files may be left.`;
}
