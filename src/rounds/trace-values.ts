/** Checks the values of a trace that decide about its rollouts. A value of another kind would count as 0 and leave the rollout out silently. */
import { isObject } from '../schemas/is-object.ts';
import { type Fields, shown } from './row-files.ts';

/** The allowed values: a test, and a description in words. */
interface Kind {
  readonly is: (value: unknown) => boolean;
  readonly allowed: string;
}

const COUNT: Kind = { is: (value) => Number.isSafeInteger(value) && (value as number) >= 0, allowed: 'an integer of at least 0' };
const FINITE: Kind = { is: Number.isFinite, allowed: 'a finite number' };
const AT_LEAST_0: Kind = { is: (value) => FINITE.is(value) && (value as number) >= 0, allowed: 'a finite number of at least 0' };
const OBJECT: Kind = { is: isObject, allowed: 'an object of numbers' };

/** Describes the fault of a `reward` line; null if there is none. A failed rollout has no reward, and a metric that failed no value. */
export function rewardProblem(line: Fields): string | null {
  const metrics = line['metrics'] ?? {};
  return (
    wrong(line, 'reward', orNull(FINITE)) ??
    wrong(line, 'rollout_index', orNothing(COUNT)) ??
    wrong(line, 'metrics', orNothing(OBJECT)) ??
    metricsProblem(metrics as Fields, { names: ['judge', 'ndcg', 'format_pass'], of: 'metrics.' })
  );
}

/** Describes the fault in the scores of an event of DDAI's log; null if there is none. */
export function scoreProblem(event: Fields): string | null {
  return wrong(event, 'final_score', FINITE) ?? metricsProblem(event, { names: ['judge_score', 'ndcg', 'format_score'], of: '' });
}

function metricsProblem(metrics: Fields, { names, of }: { readonly names: readonly string[]; readonly of: string }): string | null {
  for (const name of names) {
    const problem = wrong(metrics, name, orNothing(AT_LEAST_0), of);
    if (problem !== null) return problem;
  }
  return null;
}

function wrong(fields: Fields, key: string, { is, allowed }: Kind, of = ''): string | null {
  return is(fields[key]) ? null : `"${of}${key}" must be ${allowed}, got ${textOf(fields[key])}`;
}

function orNull({ is, allowed }: Kind): Kind {
  return { is: (value) => value === null || is(value), allowed: `${allowed}, or null` };
}

function orNothing({ is, allowed }: Kind): Kind {
  return { is: (value) => value === undefined || value === null || is(value), allowed };
}

function textOf(value: unknown): string {
  return typeof value === 'number' ? String(value) : shown(value);
}

const ISO_TIME = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)([.,]\d+)?(Z|[+-]\d\d(?::?\d\d)?)?$/;

/**
 * The time of an event of DDAI's log, in seconds since the epoch: its `ts`, else its `timestamp`, a number or an ISO time, which is UTC if it names no zone.
 * Otherwise the problem: neither is a time, or both are missing.
 */
export function eventTime(event: Fields): number | { readonly problem: string } {
  const key = event['ts'] === undefined || event['ts'] === null ? 'timestamp' : 'ts';
  const value = event[key];
  if (Number.isFinite(value)) return value as number;
  const parts = typeof value === 'string' ? ISO_TIME.exec(value) : null;
  const [, day, time, fraction = '', zone = 'Z'] = parts ?? [];
  const seconds = parts === null ? NaN : Date.parse(`${day}T${time}${zoneText(zone)}`) / 1000 + Number(`0${fraction.replace(',', '.')}`);
  if (Number.isFinite(seconds)) return seconds;
  const named = value === undefined ? '"ts"' : `"${key}"`;
  return { problem: `${named} must be a time, seconds or ISO 8601 such as 2026-01-31T12:00:00Z, got ${textOf(value)}` };
}

/** The zone in JavaScript's notation. */
function zoneText(zone: string): string {
  if (zone === 'Z') return zone;
  const digits = zone.slice(1).replace(':', '').padEnd(4, '0');
  return `${zone[0]}${digits.slice(0, 2)}:${digits.slice(2)}`;
}
