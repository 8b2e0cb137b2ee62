import type { RunData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { bytes, number } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";

export function Files({ run }: { run: RunData }) {
  const all = run.files.reduce((sum, file) => sum + file.bytes, 0);
  return (
    <div class="stack">
      {run.checkpoints.length > 0 && (
        <table class="table">
          <thead>
            <tr>
              <th scope="col">Checkpoint</th>
              <th scope="col" class="right">
                Size
              </th>
            </tr>
          </thead>
          <tbody>
            {run.checkpoints.map((one) => (
              <tr key={one.step}>
                <th scope="row">
                  step {number(one.step)} {one.best && <span class="chip">best</span>}
                </th>
                <td class="right">{bytes(one.bytes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <details>
        <summary>
          {run.files.length} files, {bytes(all)}
        </summary>
        <table class="table">
          <tbody>
            {run.files.map((file) => (
              <tr key={file.name}>
                <th scope="row" class="mono">
                  <Text value={file.name} />
                </th>
                <td class="right">{bytes(file.bytes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
      <p class="faint mono">
        <Text value={run.dir} />
      </p>
    </div>
  );
}
