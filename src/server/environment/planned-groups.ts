/** Divides the episodes of a request into groups of one row each. */
import type { Row } from '../../core/dataset.ts';
import { EnvironmentRefusal } from './environment-refusal.ts';
import type { ServedEnvironment } from './served-environment.ts';

interface AskedEpisode {
  readonly example_id: string | number;
  readonly group_id?: string;
}

export interface PlannedGroup {
  readonly row: Row;
  readonly groupId: string;
  /** Position in the request, and index among the request's episodes of the row, which the rollout's name and its random numbers follow. */
  readonly places: { readonly place: number; readonly index: number }[];
}

/** Throws EnvironmentRefusal for an unknown row, a group of several rows, or a group that has already begun if its members are scored together. */
export function plannedGroups(
  episodes: readonly AskedEpisode[],
  served: Pick<ServedEnvironment, 'row' | 'unknownRow' | 'scoresGroups'>,
  begun: { readonly has: (groupId: string) => boolean },
): readonly PlannedGroup[] {
  const groups: PlannedGroup[] = [];
  const named = new Map<string, PlannedGroup>();
  const counts = new Map<Row, number>();
  for (const [place, { example_id: exampleId, group_id: name }] of episodes.entries()) {
    const row = served.row(exampleId);
    if (row === null) throw new EnvironmentRefusal(422, `episodes[${place}].example_id: ${served.unknownRow(exampleId)}`);
    const index = counts.get(row) ?? 0;
    counts.set(row, index + 1);
    const known = name === undefined ? undefined : named.get(name);
    if (known !== undefined && known.row !== row) {
      throw new EnvironmentRefusal(
        422,
        `episodes[${place}].group_id: ${JSON.stringify(name)} has episodes of the rows ${known.row.exampleId} and ${row.exampleId}. A group has one row.`,
      );
    }
    if (known !== undefined) {
      known.places.push({ place, index });
      continue;
    }
    if (name !== undefined && served.scoresGroups && begun.has(name)) {
      throw new EnvironmentRefusal(
        422,
        `episodes[${place}].group_id: ${JSON.stringify(name)} has begun in an earlier request. Its members are scored together, so begin all of them in one request.`,
      );
    }
    const group = { row, groupId: name ?? String(row.exampleId), places: [{ place, index }] };
    groups.push(group);
    if (name !== undefined) named.set(name, group);
  }
  return groups;
}
