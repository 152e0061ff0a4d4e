/** The page of `vf-view` over real runs, in a real Chromium, and the file that it exports. `npm test` builds both before. One browser and one set of runs serve all. */
import { afterAll, beforeAll, describe } from 'vitest';
import { describeAccess } from './describe-access.ts';
import { describeExportedFile } from './describe-exported-file.ts';
import { describeHostileText } from './describe-hostile-text.ts';
import { describeOverlay } from './describe-overlay.ts';
import { describePage } from './describe-page.ts';
import { ViewBench } from './view-bench.ts';
import { chromiumPath } from './watched-page.ts';

const path = chromiumPath();

describe.skipIf(path === null)('vf-view', () => {
  const bench = new ViewBench();
  beforeAll(() => bench.start(path!));
  afterAll(() => bench.stop());

  describePage(bench);
  describeAccess(bench);
  describeHostileText(bench);
  describeExportedFile(bench);
  describeOverlay(bench);
});
