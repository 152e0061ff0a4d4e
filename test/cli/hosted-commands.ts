/** The process of `CommandHost`: runs the commands that it is sent, one after the other. */
import { runInProcess } from './in-process.ts';
import type { HostedCommand } from './command-host.ts';

process.on('message', ({ command, args, options }: HostedCommand) => {
  void runInProcess(command, args, options).then((printed) => process.send!(printed));
});
// Ends as Node does by itself, which keeps the code that it compiled for the next process.
process.on('disconnect', () => process.exit());
