/** Reads the query of a request strictly: a parameter of another form is refused in words. */
import type { Context } from 'hono';
import { ViewRequestError } from '../../viewing/view-problem.ts';
import type { ComparisonQuery, RolloutPlace, RolloutQuery, TokensPlace } from '../../viewing/view-wire.ts';

const MOST_CHARACTERS = 4000;

/** Throws ViewRequestError if it is missing. */
export function textParameter(c: Context, name: string): string {
  const value = optionalText(c, name);
  if (value === undefined) throw new ViewRequestError(400, `The request names no "${name}". Load the page again.`);
  return value;
}

/** Undefined if it is missing or empty. Throws ViewRequestError for a value that is not a number. */
export function numberParameter(c: Context, name: string, { isInteger = true } = {}): number | undefined {
  const value = optionalText(c, name);
  if (value === undefined || value === '') return undefined;
  const number = Number(value);
  if (value.trim() === '' || (isInteger ? !Number.isSafeInteger(number) || number < 0 : !Number.isFinite(number)))
    throw new ViewRequestError(
      400,
      `"${name}" must be ${isInteger ? 'a whole number from 0 up' : 'a number'}, got ${JSON.stringify(value.slice(0, 40))}. Change the address.`,
    );
  return number;
}

export function rolloutPlace(c: Context): RolloutPlace {
  return { run: textParameter(c, 'run'), set: textParameter(c, 'set'), group: textParameter(c, 'group'), index: numberParameter(c, 'index') ?? 0 };
}

export function tokensPlace(c: Context): TokensPlace {
  return { ...rolloutPlace(c), branch: numberParameter(c, 'branch') ?? 0 };
}

export function rolloutQuery(c: Context): RolloutQuery {
  const number = { isInteger: false };
  const optional = {
    sort: optionalText(c, 'sort'),
    descending: flagParameter(c, 'descending'),
    stop: optionalText(c, 'stop'),
    task: optionalText(c, 'task'),
    group: optionalText(c, 'group'),
    min_reward: numberParameter(c, 'min_reward', number),
    max_reward: numberParameter(c, 'max_reward', number),
    failed: flagParameter(c, 'failed'),
    text: optionalText(c, 'text'),
    from: numberParameter(c, 'from'),
    count: numberParameter(c, 'count'),
  };
  const { sort } = optional;
  if (sort !== undefined && !/^(order|reward|turns|tokens|id|metric:.*)$/s.test(sort))
    throw new ViewRequestError(
      400,
      `"sort" must be order, reward, turns, tokens, id or metric:NAME, got ${JSON.stringify(sort.slice(0, 40))}. Change the address.`,
    );
  const given = Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined));
  return { run: textParameter(c, 'run'), set: textParameter(c, 'set'), ...given };
}

/** Sets are `RUN:SET`; a run's name may hold colons, a set's does not. */
export function comparisonQuery(c: Context): ComparisonQuery {
  const sets = (c.req.queries('set') ?? []).map((value) => {
    const at = value.lastIndexOf(':');
    if (at < 0) throw new ViewRequestError(400, `A set to compare is RUN:SET, got ${JSON.stringify(value.slice(0, 100))}. Change the address.`);
    return { run: value.slice(0, at), set: value.slice(at + 1) };
  });
  const sort = optionalText(c, 'sort');
  if (sort !== undefined && sort !== 'difference' && sort !== 'order')
    throw new ViewRequestError(400, `"sort" must be difference or order, got ${JSON.stringify(sort.slice(0, 40))}. Change the address.`);
  const [from, count] = [numberParameter(c, 'from'), numberParameter(c, 'count')];
  return { sets, ...(sort === undefined ? {} : { sort }), ...(from === undefined ? {} : { from }), ...(count === undefined ? {} : { count }) };
}

function flagParameter(c: Context, name: string): boolean | undefined {
  const value = optionalText(c, name);
  if (value === undefined || value === '') return undefined;
  if (value !== 'true' && value !== 'false')
    throw new ViewRequestError(400, `"${name}" must be true or false, got ${JSON.stringify(value.slice(0, 40))}. Change the address.`);
  return value === 'true';
}

function optionalText(c: Context, name: string): string | undefined {
  const value = c.req.query(name);
  if (value !== undefined && value.length > MOST_CHARACTERS)
    throw new ViewRequestError(400, `"${name}" is longer than ${MOST_CHARACTERS} characters. Change the address.`);
  return value;
}
