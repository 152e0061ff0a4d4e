/** The notice about environments whose clean-up failed: the rewards count, but containers or files may remain. */
export function cleanUpText(first: string, { failed, played }: { readonly failed: number; readonly played: number }): string {
  return `Clean-up failed in ${failed} of ${played} rollouts: ${first}${first.endsWith('.') ? '' : '.'} Their rewards count, but containers, processes or files may be left.`;
}
