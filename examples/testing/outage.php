<?php
// A receiver is down for 21 minutes, in a moment: php outage.php
//
// PHP 8.1 or newer, and postbackd on the PATH. The daemon ends with the program.
declare(strict_types=1);

final class Daemon
{
    public readonly array $ready;
    private array $pipes = [];
    private mixed $process;

    public function __construct()
    {
        $command = explode(' ', 'postbackd dev --port 0 --clock manual --stop-with-stdin');
        $this->process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], STDERR], $this->pipes);
        $line = fgets($this->pipes[1]) ?: throw new Exception('no ready line');
        $this->ready = json_decode($line, true);
    }

    public function __destruct()
    {
        // Its stdin was open until now: the daemon ends with it, however the program ends.
        array_map(fclose(...), $this->pipes);
        proc_close($this->process);
    }

    public function call(string $method, string $path, ?array $body = null): array
    {
        $header = ["Authorization: Bearer {$this->ready['key']}", 'Content-Type: application/json'];
        $http = ['method' => $method, 'header' => $header, 'content' => json_encode($body ?? [])];
        $context = stream_context_create(['http' => $http]);
        $text = file_get_contents($this->ready['url'] . $path, context: $context);
        return json_decode($text ?: throw new Exception("$method $path was refused"), true);
    }
}

function check(mixed $actual, mixed $expected): void
{
    if ($actual === $expected) return;
    throw new Exception(json_encode([$actual, 'instead of', $expected]));
}

$daemon = new Daemon();
$inbox = '/dev/inbox/' . $daemon->ready['account'];
$daemon->call('PUT', "$inbox/answers", ['then' => 503]);
$tasks = [['input' => 42, 'postback_url' => $daemon->ready['inbox_url']]];
$id = $daemon->call('POST', '/v1/tasks/task_post', $tasks)['tasks'][0]['id'];
$daemon->call('POST', '/dev/clock/advance', ['by' => '21m']);

$messages = $daemon->call('GET', $inbox)['messages'];
check(array_column($messages, 'attempt'), [1, 2, 3, 4]);
check($daemon->call('GET', "/v1/tasks/deliveries/$id")['deliveries'][0]['state'], 'given_up');
foreach ($messages as ['body' => $body, 'headers' => $headers]) {
    $signature = array_column($headers, 1, 0)['x-signature'];
    check($signature, 'sha256=' . hash_hmac('sha256', $body, $daemon->ready['webhook_secret']));
}
echo "Four attempts, all genuine, and given up.\n";
