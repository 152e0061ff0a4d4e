/** The screen on which a run opens: a training run with its curves, an evaluation with its summary. */
import type { RunLine } from '../../../src/viewing/view-wire.ts';
import { formatRoute } from '../route/route.ts';

export function hrefOfRun({ id, kind }: Pick<RunLine, 'id' | 'kind'>): string {
  return formatRoute(kind === 'training' ? 'curves' : 'run', { run: id });
}
