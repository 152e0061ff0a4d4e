/** The name of a page without its last `_{page}`. */
export function documentOf(page: string): string {
  const at = page.lastIndexOf('_');
  return at === -1 ? page : page.slice(0, at);
}
