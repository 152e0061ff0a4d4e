/** Gives Ctrl-C, SIGTERM and SIGHUP their default effect while the event loop stands still: the handlers of a command would run only afterwards. */

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Puts the handlers aside; disposing puts them back. */
export function putSignalsAside(): Disposable {
  const aside = SIGNALS.flatMap((signal) => process.listeners(signal).map((listener) => [signal, listener] as const));
  for (const signal of SIGNALS) process.removeAllListeners(signal);
  return {
    [Symbol.dispose]() {
      for (const [signal, listener] of aside.splice(0)) process.on(signal, listener);
    },
  };
}
