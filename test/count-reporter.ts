import type { Reporter, TestCase, TestModule, Vitest } from 'vitest/node';

/** Prints `N passed, N failed, N skipped` as the last plain line, the form that CI readers look for. Tests that the filter of tags leaves out are not skipped ones: nothing was missing to run them. */
export default class CountReporter implements Reporter {
  /** The tag that the tests of this run have, the tag that they lack, or neither. */
  #filter: string | undefined;

  onInit({ config }: Vitest): void {
    this.#filter = config.tagsFilter?.[0];
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    let passed = 0;
    let failed = unhandledErrors.length;
    let skipped = 0;
    let left = 0;
    for (const module of modules) {
      if (module.state() === 'failed' && module.errors().length > 0) failed += 1;
      for (const test of module.children.allTests()) {
        const state = test.result().state;
        if (state === 'passed') passed += 1;
        else if (state === 'failed') failed += 1;
        else if (isLeftOut(test, this.#filter)) left += 1;
        else skipped += 1;
      }
    }
    // The default reporter writes in the same tick; its summary must come first.
    process.on('exit', () => {
      if (left > 0)
        process.stdout.write(`Left out by the tag "long": ${left}; ${this.#filter === 'long' ? 'npm test' : 'npm run test:long'} runs these.\n`);
      process.stdout.write(`${passed} passed, ${failed} failed, ${skipped} skipped\n`);
    });
  }
}

function isLeftOut(test: TestCase, filter: string | undefined): boolean {
  const isLong = test.options.tags?.includes('long') === true;
  return (filter === 'long' && !isLong) || (filter === '!long' && isLong);
}
