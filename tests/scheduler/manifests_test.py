"""The manifests for Kubernetes and the container file: each field is one of the API, what the API server
checks holds, and the pods that they ask for become one job of the built ddprun. The pods' environment is
made as Kubernetes documents it; no Kubernetes is here."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import namespaces  # noqa: E402
import skip  # noqa: E402
from api_server import ApiServer  # noqa: E402
from named_hosts import NamedHosts  # noqa: E402
from program import Program  # noqa: E402

try:
    import yaml
except ImportError:
    yaml = None

DDPRUN = pathlib.Path(os.environ.get("DDPRUN_BIN_DIR", ROOT / "build" / "bin")) / "ddprun"
MISSING = namespaces.missing()
TEMPLATES = ROOT / "scripts" / "templates"

# Kubernetes API reference, v1.34, and JobSet API reference, v1alpha2: those fields that the manifests use,
# with the type of each. [x]: a list of x. Maps of any names: {"*": type}.
META = {"name": str}
POD = {"subdomain": str, "serviceAccountName": str, "restartPolicy": str, "terminationGracePeriodSeconds": int,
       "containers": [{"name": str, "image": str, "command": [str], "args": [str],
                       "resources": {"limits": {"*": (int, str)}},
                       "volumeMounts": [{"name": str, "mountPath": str}]}],
       "volumes": [{"name": str, "persistentVolumeClaim": {"claimName": str},
                    "emptyDir": {"medium": str}}]}
JOB = {"completionMode": str, "completions": int, "parallelism": int, "backoffLimit": int,
       "podFailurePolicy": {"rules": [{
           "action": str, "onExitCodes": {"containerName": str, "operator": str, "values": [int]},
           "onPodConditions": [{"type": str, "status": str}]}]},
       "template": {"spec": POD}}
SCHEMAS = {
    ("v1", "Service"): {"clusterIP": str, "publishNotReadyAddresses": bool, "selector": {"*": str}},
    ("batch/v1", "Job"): JOB,
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): {
        "network": {"enableDNSHostnames": bool, "publishNotReadyAddresses": bool},
        "failurePolicy": {"maxRestarts": int, "rules": [
            {"name": str, "action": str, "onJobFailureReasons": [str]}]},
        "replicatedJobs": [{"name": str, "replicas": int, "template": {"spec": JOB}}]},
}
# What has no specification.
ROLES = {
    ("v1", "ServiceAccount"): {},
    ("rbac.authorization.k8s.io/v1", "Role"): {"rules": [{"apiGroups": [str], "resources": [str], "verbs": [str]}]},
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): {
        "roleRef": {"apiGroup": str, "kind": str, "name": str}, "subjects": [{"kind": str, "name": str}]},
}
CHOICES = {("completionMode", "Indexed"), ("restartPolicy", "Never"), ("operator", "In"),
           ("action", "FailJob"), ("action", "Ignore"), ("action", "FailJobSet"), ("medium", "Memory"),
           ("type", "DisruptionTarget")}


def mistakes(value, schema, at):
    """Where the value is not what the schema says."""
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            return [f"{at} is no map"]
        known = [key in schema or "*" in schema for key in value]
        return [f"{at}.{key} is no field" for key, is_known in zip(value, known) if not is_known] + [
            found for key, is_known in zip(value, known) if is_known
            for found in mistakes(value[key], schema.get(key, schema.get("*")), f"{at}.{key}")]
    if isinstance(schema, list):
        if not isinstance(value, list) or not value:
            return [f"{at} is no list"]
        return [found for index, one in enumerate(value)
                for found in mistakes(one, schema[0], f"{at}[{index}]")]
    types = schema if isinstance(schema, tuple) else (schema,)
    fits = type(value) in types  # True is no int here
    name = at.rpartition(".")[2]
    chosen = {choice for field, choice in CHOICES if field == name}
    return [] if fits and (not chosen or value in chosen) else [f"{at} is {value!r}"]


def documents(name):
    return list(yaml.safe_load_all((TEMPLATES / name).read_text()))


def spec(manifest, kind):
    [found] = [one for one in manifest if one["kind"] == kind]
    return found["metadata"]["name"], found["spec"]


def indexed_job():
    """Of each manifest: the name of the Job that comes to be, its specification, the pods' domain."""
    name, job = spec(documents("kubernetes.yaml"), "Job")
    yield name, job, job["template"]["spec"]["subdomain"]
    name, jobset = spec(documents("jobset.yaml"), "JobSet")
    [replicated] = jobset["replicatedJobs"]
    # <jobSet.name>-<spec.replicatedJob.name>-<job index>; the domain is <jobSet.name> if none is given.
    yield f"{name}-{replicated['name']}-0", replicated["template"]["spec"], name


def seconds_of(option, shown):
    text = re.search(option, shown, re.S)[1]
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]] if text[-1] in "smh" else int(text)


@unittest.skipUnless(yaml, "needs program: python3-yaml is not installed")
class Manifests(unittest.TestCase):
    def test_each_field_is_one_of_the_api(self):
        for name in ("kubernetes.yaml", "kubernetes-lease.yaml", "jobset.yaml"):
            for one in documents(name):
                kind = one["apiVersion"], one["kind"]
                rest = ROLES[kind] if kind in ROLES else {"spec": SCHEMAS[kind]}
                schema = {"apiVersion": str, "kind": str, "metadata": META, **rest}
                self.assertEqual(mistakes(one, schema, name), [])

    def test_the_role_of_the_lease_is_that_of_its_pods(self):
        all_of = {one["kind"]: one for one in documents("kubernetes-lease.yaml")}
        self.assertEqual(all_of["Role"]["rules"], [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}])
        name = all_of["ServiceAccount"]["metadata"]["name"]
        self.assertEqual(all_of["RoleBinding"]["subjects"], [{"kind": "ServiceAccount", "name": name}])
        self.assertEqual(all_of["RoleBinding"]["roleRef"]["name"], all_of["Role"]["metadata"]["name"])
        self.assertEqual(all_of["Job"]["spec"]["template"]["spec"]["serviceAccountName"], name)
        # Beside that, and where they meet, it is the other manifest's Job.
        _, other = spec(documents("kubernetes.yaml"), "Job")
        job = all_of["Job"]["spec"]
        meeting = {"--nnodes=2", "--nnodes=1:2", "--rdzv-id=ddp", "--rdzv-endpoint=ddp-0.ddp:29400",
                   "--rdzv-backend=kubernetes"}
        for one in (job, other):
            pod = one["template"]["spec"]
            pod.pop("subdomain", None)
            pod.pop("serviceAccountName", None)
            pod["containers"][0]["args"] = [word for word in pod["containers"][0]["args"] if word not in meeting]
        self.assertEqual(job, other)

    def test_a_field_at_a_wrong_place_would_be_found(self):
        _, job = spec(documents("kubernetes.yaml"), "Job")
        job["restartPolicy"] = "Never"
        job["template"]["spec"]["containers"][0]["args"].append(5)
        job["completions"] = True
        self.assertEqual(mistakes(job, JOB, "job"), [
            "job.restartPolicy is no field", "job.completions is True",
            "job.template.spec.containers[0].args[" +
            str(len(job["template"]["spec"]["containers"][0]["args"]) - 1) + "] is 5"])

    def test_what_the_api_server_checks_beside_the_fields(self):
        for name, job, _ in indexed_job():
            pod = job["template"]["spec"]
            [container] = pod["containers"]
            self.assertEqual(job["completions"], job["parallelism"], name)
            self.assertEqual(pod["restartPolicy"], "Never", "podFailurePolicy needs it")
            for rule in job["podFailurePolicy"]["rules"]:
                self.assertEqual(len(rule), 2, "an action, and one requirement")
                self.assertIn(rule.get("onExitCodes", {}).get("containerName"), (None, container["name"]))
            self.assertEqual({mount["name"] for mount in container["volumeMounts"]},
                             {volume["name"] for volume in pod["volumes"]})
        service_name, service = spec(documents("kubernetes.yaml"), "Service")
        job_name, job = spec(documents("kubernetes.yaml"), "Job")
        # The label that the Job controller gives its pods, and the service of their domain.
        self.assertEqual(service["selector"], {"job-name": job_name})
        self.assertEqual(service["clusterIP"], "None")
        self.assertEqual(job["template"]["spec"]["subdomain"], service_name)

    def test_exit_codes_lead_where_the_command_line_says(self):
        for name, job, _ in indexed_job():
            actions = {code: rule["action"] for rule in job["podFailurePolicy"]["rules"]
                       for code in rule.get("onExitCodes", {}).get("values", [])}
            self.assertEqual(actions, {75: "Ignore", 2: "FailJob", 78: "FailJob"}, name)
        page = (ROOT / "docs" / "command-line.md").read_text()
        for code, meaning in ((75, "preempted"), (2, "argparse refuses"), (78, "--require-same-env")):
            self.assertRegex(page, rf"\| {code} \|[^|]*{meaning}")

    def test_a_pod_that_goes_has_the_time_to_save(self):
        shown = subprocess.run([DDPRUN, "--help"], capture_output=True, text=True, timeout=60).stdout
        needed = seconds_of(r"--preempt-grace TIME.*?\[(\w+)\]", shown) + seconds_of(
            r"--shutdown-timeout SECONDS.*?or\s+(\d+)\)", shown)
        for name, job, _ in indexed_job():
            self.assertGreater(job["template"]["spec"]["terminationGracePeriodSeconds"], needed, name)


class Pods(unittest.TestCase):
    """Each pod's host name, domain and variables are what its Job would give it."""

    @classmethod
    def setUpClass(cls):
        if MISSING:
            skip.need(MISSING[0], False, MISSING[1])
        skip.need("program", yaml, "python3-yaml is not installed")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-manifests-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.jobs = list(indexed_job())
        NamedHosts(cls.folder, [f"{pod}.{domain}.default.svc.cluster.local {pod}.{domain} {pod}"
                                for name, job, domain in cls.jobs
                                for pod in (f"{name}-{index}" for index in range(job["completions"]))],
                   "cluster")

    def start(self, pod, index, words, env=None):
        command = ["unshare", "--uts", "sh", "-c", f'hostname {pod} && exec "$@"', "sh", DDPRUN, *words]
        program = Program(self.folder, pod, command, cwd=self.folder,
                          env={"PATH": os.environ["PATH"], "HOSTNAME": pod, "OMP_NUM_THREADS": "1",
                               "JOB_COMPLETION_INDEX": str(index),
                               "KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443",
                               **(env or {})})
        self.addCleanup(program.end)
        return program

    def run_job(self, name, job, words, env=None):
        return [self.start(f"{name}-{index}", index, words, env) for index in range(job["completions"])]

    def test_the_pods_of_a_manifest_are_one_job(self):
        for name, job, domain in self.jobs:
            [container] = job["template"]["spec"]["containers"]
            self.assertEqual(container["command"], ["ddprun"])
            # There is no GPU, and the claim is a folder.
            words = [word.replace("=gpu", "=1").replace("/snapshots/", f"{self.folder}/{name}-")
                     for word in container["args"]]
            self.assertIn(f"--rdzv-endpoint={name}-0.{domain}:29400", words)
            self.assertIn(f"--nnodes={job['completions']}", words)
            pods = self.run_job(name, job, words)
            for pod in pods:
                self.assertEqual(pod.wait(60), 0, pod)
            self.assertIn("Training finished: 50 epochs", "".join(pod.out for pod in pods))

    def test_the_pods_of_the_manifest_with_a_lease_are_one_job(self):
        api = ApiServer(namespace="default")
        self.addCleanup(api.end)
        api.token = None
        name, job = spec(documents("kubernetes-lease.yaml"), "Job")
        [container] = job["template"]["spec"]["containers"]
        words = [word.replace("=gpu", "=1").replace("/snapshots/", f"{self.folder}/lease-") for word in container["args"]]
        # As by kubectl proxy: a pod's own files are at a place that is the machine's here.
        pods = self.run_job(name, job, words, {"PET_RDZV_ENDPOINT": f"127.0.0.1:{api.port}",
                                               "PET_RDZV_CONF": "protocol=http,namespace=default"})
        for pod in pods:
            self.assertEqual(pod.wait(60), 0, pod)
        self.assertIn("Training finished: 50 epochs", "".join(pod.out for pod in pods))
        self.assertEqual(list(api.leases), [f"ddprun-{name}"])
        self.assertEqual({verb for verb, _ in api.asked}, {"get", "create", "update"})
        self.assertEqual(api.mistakes, [])

    def test_without_endpoint_and_id_they_find_each_other_by_their_names(self):
        for name, job, domain in self.jobs:
            pods = self.run_job(name, job, ["--nnodes=2", "sh", "-c", "echo rank $RANK of $WORLD_SIZE"])
            for pod in pods:
                self.assertEqual(pod.wait(60), 0, pod)
            self.assertEqual(sorted(pod.out for pod in pods), ["rank 0 of 2\n", "rank 1 of 2\n"])
            self.assertIn(f"--rdzv-endpoint {name}-0.{domain}.default.svc.cluster.local:29400",
                          pods[0].err)


class Containerfile(unittest.TestCase):
    """No container runtime is here: that its instructions are ones, and speak of what there is."""

    def setUp(self):
        text = (ROOT / "packaging" / "Containerfile").read_text()
        joined = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", text))
        self.steps = [line.split(None, 1) for line in joined.splitlines() if line.strip()]

    def test_its_instructions_are_ones_and_its_files_are_there(self):
        self.assertEqual({step for step, _ in self.steps},
                         {"FROM", "WORKDIR", "COPY", "RUN", "ENTRYPOINT"})
        for words in (shlex.split(rest) for step, rest in self.steps if step == "COPY"):
            sources = [word for word in words[:-1] if not word.startswith("--from=")]
            if sources == words[:-1]:
                for source in sources:
                    self.assertTrue((ROOT / source).exists(), source)
        for rest in (rest for step, rest in self.steps if step == "RUN"):
            subprocess.run(["sh", "-n", "-c", rest], check=True, timeout=60)
            for script in re.findall(r"scripts/\w+", rest):
                self.assertTrue(os.access(ROOT / script, os.X_OK), script)

    def test_neither_history_nor_what_was_built_here_is_copied(self):
        ignored = (ROOT / ".dockerignore").read_text().splitlines()
        made = [line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()
                if line.endswith(("/", "*")) or line.startswith("/")]
        self.assertLessEqual({".git", "build*", *made}, set(ignored))

    def test_the_package_comes_from_where_scripts_package_puts_it(self):
        [copied] = [rest for step, rest in self.steps if rest.startswith("--from=build")]
        self.assertIn("/src/build/packages/ddprun_*.deb", copied)
        self.assertIn('out=$root/build/packages', (ROOT / "scripts/package").read_text())
        self.assertIn(["ENTRYPOINT", '["ddprun"]'], self.steps)


if __name__ == "__main__":
    if not MISSING:
        namespaces.inside()
    skip.main()
