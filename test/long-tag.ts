/** The tag of tests that `npm test` and `.ci/run` leave out and `npm run test:long` runs. */
export const LONG_TAG = { name: 'long', description: 'calibrations, long learning runs, and kills beyond one per file format', timeout: 300_000 };
