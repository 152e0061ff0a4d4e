/** Notices for readers of a run's figures, from its recorded rollouts. */
import type { Environment } from '../core/environment.ts';
import { cleanUpText } from '../rollouts/clean-up-text.ts';
import { metricErrorTexts } from '../rollouts/metric-error-texts.ts';
import { UNPLAYED } from '../rollouts/rollout.ts';
import type { RecordedRollout } from './recorded-rollout.ts';

export function runNotices(
  rollouts: readonly RecordedRollout[],
  {
    limits,
    limitArguments = {},
    rubric,
  }: Pick<Environment, 'limits' | 'limitArguments'> & { readonly rubric: Pick<Environment['rubric'], 'displays'> },
): string[] {
  const finished = rollouts.filter(({ error }) => error === null);
  const cut = finished.filter(({ cutObservations }) => cutObservations > 0);
  const notices: string[] = [];
  if (cut.length > 0) {
    const observations = cut.reduce((sum, { cutObservations }) => sum + cutObservations, 0);
    const key = limitArguments.observationTokens;
    const remedy = key === undefined ? 'raise that limit' : `raise ${key}`;
    // The environments of a group may have limits of their own.
    const kept = Number.isFinite(limits.observationTokens)
      ? `to their first ${limits.observationTokens} tokens`
      : 'to the limit of their environment';
    notices.push(
      `${observations} observations in ${cut.length} of ${finished.length} rollouts were cut ${kept}, closing tag ` +
        `and later passages included; ${remedy} to keep them whole.`,
    );
  }
  for (const [name, { remark }] of rubric.displays ?? []) {
    const seen = remark === undefined ? 0 : finished.filter(({ metrics }) => (metrics[name] ?? 0) !== 0).length;
    if (seen > 0) notices.push(`${seen} of ${finished.length} rollouts ${remark}`);
  }
  notices.push(...unplayedNotices(rollouts));
  notices.push(...stopNotices(rollouts));
  notices.push(...unhonouredNotices(rollouts));
  notices.push(...metricErrorTexts(finished));
  const unclean = rollouts.flatMap(({ cleanUpError }) => cleanUpError ?? []);
  if (unclean.length > 0) notices.push(cleanUpText(unclean[0]!, { failed: unclean.length, played: rollouts.length }));
  return notices;
}

/** What agents asked for in vain. */
function unhonouredNotices(rollouts: readonly RecordedRollout[]): string[] {
  const asking = rollouts.filter(({ unhonoured = [] }) => unhonoured.length > 0);
  if (asking.length === 0) return [];
  const keys = [...new Set(asking.flatMap(({ unhonoured = [] }) => unhonoured))].toSorted();
  return [
    `In ${asking.length} of ${rollouts.length} rollouts the agent's requests set ${keys.join(', ')}, which this policy cannot honour and which changed nothing.`,
  ];
}

/** Rollouts that are in no figure because the policy had no room for a first token. */
function unplayedNotices(rollouts: readonly RecordedRollout[]): string[] {
  const unplayed = rollouts.filter(({ error }) => error?.type === UNPLAYED);
  if (unplayed.length === 0) return [];
  const rows = new Set(unplayed.map(({ groupId }) => groupId)).size;
  return [
    `${unplayed.length} of ${rollouts.length} rollouts, of ${rows} ${rows === 1 ? 'row' : 'rows'}, were not played: the policy had no room for a first token. ` +
      'They have no reward, so every figure is of the other rows only; other runs may have played more rows.',
  ];
}

/** What the server did with the environment's stop strings, if the texts may differ for it. */
export function stopNotices(rollouts: readonly RecordedRollout[]): string[] {
  const turns = rollouts.reduce((sum, rollout) => sum + rollout.turns, 0);
  const guessed = rollouts.reduce((sum, { guessedStops = 0 }) => sum + guessedStops, 0);
  const ignored = rollouts.reduce((sum, { ignoredStops = 0 }) => sum + ignoredStops, 0);
  return [
    ...(guessed === 0
      ? []
      : [
          `${guessed} of ${turns} turns: the server does not say whether a stop string ended the text, so this was guessed from the tags (guessed_stops). ` +
            `-S '{"stop": null}' sends no stop strings and cuts the texts here, at the cost of more tokens; --strict-stops refuses guesses.`,
        ]),
    ...(ignored === 0 ? [] : [`${ignored} of ${turns} turns: the server went on after a stop string; the texts were cut there.`]),
  ];
}
