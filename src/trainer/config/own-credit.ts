import { isModulePath } from '../../core/module-path.ts';

/** `algorithm.advantage.use` of a run whose environment brings its credit. */
export const ENVIRONMENT_CREDIT = 'environment';

/** True if `algorithm.advantage.use` names no built-in credit. */
export function isOwnCredit(use: string): boolean {
  return use === ENVIRONMENT_CREDIT || isModulePath(use);
}
