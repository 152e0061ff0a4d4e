/** The limit of synchronous work. `within-time.ts` has that of Node; a page has none. */

/** Runs the work; throws TimeExceeded if it takes longer. */
export type WithinTime = <T>(limitMs: number, work: () => T) => T;

export class TimeExceeded extends Error {}
