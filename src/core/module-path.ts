/** True if a setting names a module (`./my-loss.ts`), not something built in. */
export function isModulePath(use: string): boolean {
  return /[./\\]/.test(use);
}
