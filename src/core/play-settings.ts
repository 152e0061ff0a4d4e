/** Checks what an environment says of its own play, whose code may be JavaScript that no compiler has read. */
import type { EnvironmentLimits } from './environment.ts';

export const LIMITS = [
  'responseTokens',
  'observationTokens',
  'contextTokens',
  'completionTokens',
] as const satisfies readonly (keyof EnvironmentLimits)[];

/** Describes the fault in an environment's stop strings or limits; null if there is none. */
export function playSettingsProblem({ stop = [], limits }: { readonly stop?: unknown; readonly limits: object }): string | null {
  if (!Array.isArray(stop)) return `stop must be a list of strings, got ${JSON.stringify(stop)}`;
  // The empty string would end every generation before its first character.
  const odd = stop.findIndex((text) => typeof text !== 'string' || text === '');
  if (odd !== -1) return `stop[${odd}] must be a non-empty string, got ${JSON.stringify(stop[odd])}`;
  for (const name of LIMITS) {
    const value = (limits as Readonly<Record<string, unknown>>)[name];
    if (value === undefined || value === Infinity || (Number.isInteger(value) && (value as number) >= 0)) continue;
    return `limits.${name} must be an integer of at least 0 or Infinity, got ${typeof value === 'number' ? value : JSON.stringify(value)}`;
  }
  return null;
}
