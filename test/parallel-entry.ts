/** An entry file as parallel.test.ts starts it: three jobs, of which the second fails while FAIL is set. */
import { runJobs, serveJob } from "../benchmarks/parallel.ts";

interface Job {
  n: number;
}

await serveJob(async ({ n }: Job) => {
  console.log("something said before the result");
  if (n === 2 && process.env.FAIL) throw new Error("two is out of order");
  return { square: n * n };
});
const [file, settings, minutes] = process.argv.slice(2);
const jobs: Job[] = [1, 2, 3].map((n) => ({ n }));
const done = await runJobs<Job, { square: number }>({
  ...{ jobs, settingsOf: () => settings, file: file!, processes: 2 },
  ...(minutes !== undefined && { minutes: Number(minutes) }),
});
console.log(
  JSON.stringify({
    results: done.rows.map(({ job, result }) => [job.n, result.square]),
    failed: done.failed.map(({ job, message }) => [job.n, message.split("\n")[0]]),
    left: done.left,
  }),
);
